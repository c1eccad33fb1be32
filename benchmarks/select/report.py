"""Tables: the targets at the top, then reads, speed-ups, how near to k, corners, the whole path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.common.targets import Verdict, summary
from benchmarks.common.timing import markdown
from benchmarks.select.contenders import DENSITIES
from benchmarks.select.count_accuracy import Quality
from benchmarks.select.slow_inputs import Corner
from benchmarks.select.speeds import FUSED, Path, Speed

__all__ = ["base_of", "document", "speed_up"]

READS = """A read is one sum of magnitudes over the same array, compiled by Numba with fastmath, in turns with
what is measured; medians of both. δ is the density. `sidco(δ, mode=faithful)` makes one stage, as the
paper's does at its first step; beside `sidco(δ)` stand its fits and the reads that it counts itself.
`threshold` is told the threshold that keeps δ of Laplace numbers, and `adacomp(50)` reads two arrays. What is
not of this library stands in italics.
"""
SPEEDS = """What the SIDCo paper's figures 1a, 1b and 16 show: how many times as fast as a top-k that sorts or
partitions. Each cell is the speed-up over *{base}*, then, in parentheses, that over `topk`. All on one thread
of the CPU.
"""
QUALITY = """What its figures 1c and 9 show: k̂/k, the mean over the iterations and, in parentheses, the least
and the greatest. Every selector sees the same gradients, those of a training that applies them whole, from
its first step on; with feedback, each has a residual of its own. Saved gradients are one iteration. SIDCo-E,
-GP and -P are `sidco(δ, mode=faithful)` with the paper's three distributions, beginning with one stage.
"""
CORNERS = """Reads that `topk` takes on one thread. Who knows the code can mislead its first sample; where the
second one looks depends on the clock, so that it is misled only here, where the clock is stopped.
"""
PATHS = """Reads of the dense array on one thread; `prepare` is a Compressor's step. More in `whole_path.md`.
"""


def document(
    verdicts: Sequence[Verdict],
    speeds: Sequence[Speed],
    qualities: Sequence[Quality],
    corners: Sequence[Corner],
    paths: Sequence[Path],
) -> str:
    """All of it in Markdown."""
    parts = ["## Targets\n", summary(verdicts), "## Reads\n", READS]
    for array in _unique(s.array for s in speeds):
        parts.append(_reads(array, [s for s in speeds if s.array == array]))
    parts += ["## Speed-up over top-k\n", SPEEDS.format(base=base_of(speeds))]
    parts += [_speed_ups([s for s in speeds if s.density == density]) for density in DENSITIES]
    parts += ["## How near to k\n", QUALITY]
    for stream, feedback in _unique((q.stream, q.feedback) for q in qualities):
        parts.append(_near([q for q in qualities if (q.stream, q.feedback) == (stream, feedback)]))
    densities = [f"{density:g}" for density in DENSITIES]
    misled = ("", "; one sample misled", "; both samples misled")
    rows = [[c.name + misled[c.samples], *(f"{r:.2f}" for r in c.reads)] for c in corners]
    parts += ["## Inputs that are meant to be slow\n", CORNERS, markdown(["reads", *densities], rows)]
    lines = [[f"`{p.scheme}`".replace("|", "·"), *(f"{t:.2f}" for t in p.reads)] for p in paths]
    parts += ["## The whole path\n", PATHS, markdown(["reads", "encode", "decode_add", "prepare"], lines)]
    return "\n".join(parts)


def base_of(speeds: Sequence[Speed]) -> str:
    """What speed-ups are held against."""
    names = {s.name for s in speeds}
    return "torch.topk" if "torch.topk" in names else "np.argpartition"


def speed_up(speeds: Sequence[Speed], one: Speed, base: str) -> float:
    """How many times as fast as ``base`` on the same array."""
    (other,) = [
        s for s in speeds if (s.array, s.density, s.name, s.threads) == (one.array, one.density, base, 1)
    ]
    return other.reads / one.reads


def _reads(array: str, speeds: Sequence[Speed]) -> str:
    def cell(s: Speed) -> str:
        return f"{s.reads:.2f}" + (f" ({s.fits} fits, {s.counted:.2f})" if s.fits is not None else "")

    first = speeds[0]
    rate = 4e-9 * first.elements / first.read
    head = f"{array}; a read takes {1e3 * first.read:.3g} ms, {rate:.1f} GB/s"
    return _table(head, speeds, lambda s: f"{s.density:g}", cell)


def _speed_ups(speeds: Sequence[Speed]) -> str:
    base = base_of(speeds)
    some = [s for s in speeds if s.threads == 1 and s.name != FUSED]

    def cell(s: Speed) -> str:
        over, ours = speed_up(speeds, s, base), speed_up(speeds, s, "topk(δ)")
        return f"{_three(over)}× ({_three(ours)}×)"

    return _table(f"δ = {speeds[0].density:g}", some, lambda s: s.array, cell)


def _table(
    head: str, speeds: Sequence[Speed], column: Callable[[Speed], str], cell: Callable[[Speed], str]
) -> str:
    columns = _unique(column(s) for s in speeds)
    rows: dict[str, dict[str, str]] = {}
    for s in speeds:
        name = f"*{s.name}*" if s.peer else f"`{s.name}`"
        name += "" if s.threads == 1 else f", {s.threads} threads"
        rows.setdefault(name, {})[column(s)] = cell(s)
    return markdown(
        [head, *columns], [[n, *(cells.get(c, "") for c in columns)] for n, cells in rows.items()]
    )


def _near(qualities: Sequence[Quality]) -> str:
    first = qualities[0]
    count = len(first.ratios)
    head = f"{first.stream}, {'with' if first.feedback else 'without'} feedback, "
    head += "1 iteration" if count == 1 else f"{count} iterations"
    rows: dict[str, list[str]] = {}
    for q in qualities:
        mean, span = sum(q.ratios) / len(q.ratios), (min(q.ratios), max(q.ratios))
        text = _three(mean) if count == 1 else f"{_three(mean)} ({_three(span[0])}–{_three(span[1])})"
        rows.setdefault(f"`{q.name}`", []).append(text)
    return markdown([head, *(f"{d:g}" for d in DENSITIES)], [[name, *cells] for name, cells in rows.items()])


def _three(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"


def _unique(found: Iterable[object]) -> list:  # type: ignore[type-arg]
    return list(dict.fromkeys(found))
