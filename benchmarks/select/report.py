"""Result page of selectors: targets, reads, speed-ups, slow inputs, whole schemes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import TargetResult, format_targets
from benchmarks.select.slow_inputs import SlowInput
from benchmarks.select.speeds import FUSED, TOPK, SchemeSpeed, Speed

__all__ = [
    "compute_speed_up",
    "find_baseline",
    "format_answer",
    "format_page",
    "list_slow_inputs",
    "list_speed_ups",
]

PICTURES = """![speed-up over top-k](select.png)

[papers.md](papers.md#sidco-abdelmoniem-et-al-2021) has how close to k the selectors' counts are.
"""
READS = """A read is one sum of magnitudes over the same array, compiled by Numba with fastmath. It is
measured in turns with the selectors; all times are medians. δ is the density. The numbers in parentheses
after `sidco(δ)` are its fits and the reads that it counts itself. Third-party software is in italics. The
speed-ups below have the other selectors.
"""
SPEEDS = """This section corresponds to figures 1b and 16e-g of the SIDCo paper: the speed-up over a top-k
that sorts or partitions, on a CPU. The paper has DGC slower than top-k there. Each cell is the speed-up over
*{baseline}* on one thread. `sidco(δ, mode=faithful)` has one stage,
as the paper's selector has in its first step. `threshold` uses the threshold that keeps a fraction δ of
Laplace values. [speeds.csv](select/speeds.csv) has all selectors, also at 0.1 and 0.001; `adacomp(50)` reads
two arrays.
"""
SHOWN = (TOPK, "sidco(δ)", "sidco(δ, mode=faithful)", "dgc(δ)", "redsync(δ)", "threshold")
"""Selectors of the table of speed-ups."""
SHOWN_DENSITY = 0.01
"""Density of that table; the data file has the others."""
SLOW_INPUTS = """Most reads of `topk` on one thread. An adversary who knows the code can mislead its first
sample. The positions of the second sample depend on the clock. It is misled only in this test, which fixes
the clock.
[slow_inputs.csv](select/slow_inputs.csv) has each input.
"""
SCHEMES = """Reads of the dense array on one thread; `prepare` is a Compressor's step.
"""


def format_page(
    results: Sequence[TargetResult],
    speeds: Sequence[Speed],
    inputs: Sequence[SlowInput],
    schemes: Sequence[SchemeSpeed],
) -> str:
    """Format the result page as Markdown."""
    parts = [format_answer(speeds), PICTURES, "## Targets\n", format_targets(results), "## Reads\n", READS]
    for array in dict.fromkeys(s.array for s in speeds):
        if array[0].isdigit():  # of gradients, the speed-ups are enough
            parts.append(_format_reads(array, [s for s in speeds if s.array == array]))
    parts += ["## Speed-up over top-k\n", SPEEDS.format(baseline=find_baseline(speeds))]
    parts.append(_format_speed_ups([s for s in speeds if s.density == SHOWN_DENSITY]))
    densities = [f"{density:g}" for density in DENSITIES]
    parts += ["## Slow inputs\n", SLOW_INPUTS, format_markdown(["inputs", *densities], _list_slowest(inputs))]
    rows = [
        [f"`{s.scheme}`".replace("|", "·"), *(f"{t:.2f}" for t in (s.encode, s.decode_add, s.prepare))]
        for s in schemes
    ]
    table = format_markdown(["reads", "encode", "decode_add", "prepare"], rows)
    return "\n".join([*parts, "## Whole schemes\n", SCHEMES, table])


@dataclass(frozen=True)
class Gain:
    """Speed-up of a selector on one thread over another one's, as a row of a data file."""

    array: str
    density: float
    selector: str
    over_baseline: float
    over_topk: float


def list_speed_ups(speeds: Sequence[Speed]) -> list[Gain]:
    """List the speed-ups of all selectors over the baseline and over ``topk``, for a data file."""
    baseline = find_baseline(speeds)
    return [
        Gain(s.array, s.density, s.name, *(compute_speed_up(speeds, s, name) for name in (baseline, TOPK)))
        for s in speeds
        if s.threads == 1 and s.name != FUSED
    ]


@dataclass(frozen=True)
class Slowness:
    """Reads of ``topk`` for an input at a density, as a row of a data file."""

    input: str
    misled_samples: int
    density: float
    reads: float


def list_slow_inputs(inputs: Sequence[SlowInput]) -> list[Slowness]:
    """List the reads of all slow inputs, for a data file."""
    return [
        Slowness(i.name, i.misled_samples, density, reads)
        for i in inputs
        for density, reads in zip(DENSITIES, i.reads, strict=True)
    ]


def _list_slowest(inputs: Sequence[SlowInput]) -> list[list[str]]:
    """List the most reads of the inputs that mislead no sample, one, or both."""
    names = ("no sample misled", "first sample misled", "both samples misled")
    rows = []
    for misled, name in enumerate(names):
        found = [i.reads for i in inputs if i.misled_samples == misled]
        rows.append([f"{len(found)}: {name}", *(f"{max(reads):.2f}" for reads in zip(*found, strict=True))])
    return rows


def format_answer(speeds: Sequence[Speed]) -> str:
    """Answer the benchmark's question by the least and the most of all arrays and densities."""
    found: dict[str, list[Speed]] = {}
    for speed in speeds:
        if speed.threads == 1:
            found.setdefault(speed.name, []).append(speed)
    baseline = find_baseline(speeds)
    if not {TOPK, "sidco(δ)", baseline} <= set(found):
        return ""
    least, most = (choose(found[TOPK], key=lambda speed: speed.reads) for choose in (min, max))
    gains = [compute_speed_up(speeds, speed, baseline) for speed in found[TOPK]]
    sidco = [speed.reads for speed in found["sidco(δ)"]]
    return (
        f"On one thread, `topk` takes {least.reads:.2f} reads of the array ({_format_case(least)}) to "
        f"{most.reads:.2f} ({_format_case(most)}). This is {min(gains):.1f} to {max(gains):.1f} times as "
        f"fast as {baseline}. `sidco` takes {min(sidco):.2f} to {max(sidco):.2f} reads.\n"
    )


def _format_case(speed: Speed) -> str:
    return f"{speed.elements:,} elements, density {speed.density:g}"


def find_baseline(speeds: Sequence[Speed]) -> str:
    """Return the name of the top-k that speed-ups refer to."""
    names = {s.name for s in speeds}
    return "torch.topk" if "torch.topk" in names else "np.argpartition"


def compute_speed_up(speeds: Sequence[Speed], speed: Speed, baseline: str) -> float:
    """Return the speed-up of one selector over a baseline on the same array."""
    (other,) = [
        s
        for s in speeds
        if (s.array, s.density, s.name, s.threads) == (speed.array, speed.density, baseline, 1)
    ]
    return other.reads / speed.reads


def _format_reads(array: str, speeds: Sequence[Speed]) -> str:
    def format_cell(s: Speed) -> str:
        return f"{s.reads:.2f}" + (f" ({s.fits} fits, {s.counted_reads:.2f})" if s.fits is not None else "")

    baseline = find_baseline(speeds)
    shown = [s for s in speeds if s.threads > 1 or s.name in (TOPK, "sidco(δ)", FUSED, baseline)]
    first = speeds[0]
    rate = 4e-9 * first.elements / first.read_seconds
    title = f"{array}; one read is {1e3 * first.read_seconds:.3g} ms, {rate:.1f} GB/s"
    return _format_table(title, shown, lambda s: f"{s.density:g}", format_cell)


def _format_speed_ups(speeds: Sequence[Speed]) -> str:
    baseline = find_baseline(speeds)
    chosen = [s for s in speeds if s.threads == 1 and (s.name in SHOWN or s.peer) and s.name != baseline]

    def format_cell(s: Speed) -> str:
        return f"{_format_number(compute_speed_up(speeds, s, baseline))}×"

    return _format_table(f"δ = {speeds[0].density:g}", chosen, lambda s: s.array, format_cell)


def _format_table(
    title: str, speeds: Sequence[Speed], column: Callable[[Speed], str], cell: Callable[[Speed], str]
) -> str:
    columns = list(dict.fromkeys(column(s) for s in speeds))
    cells = ((_format_name(s), column(s), cell(s)) for s in speeds)
    return format_markdown([title, *columns], pivot_rows(cells, columns))


def _format_name(s: Speed) -> str:
    name = f"*{s.name}*" if s.peer else f"`{s.name}`"
    return name if s.threads == 1 else f"{name}, {s.threads} threads"


def _format_number(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"
