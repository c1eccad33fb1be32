"""What the selectors should reach, held against what was measured: each target at its worst figure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.targets import Measures, Verdict, at_least, at_most
from benchmarks.select.contenders import DENSITIES
from benchmarks.select.count_accuracy import Quality
from benchmarks.select.slow_inputs import Corner
from benchmarks.select.speeds import FUSED, TOPK, Path, Speed

__all__ = ["LARGE", "verdicts"]

LARGE = 26_000_000
"""Elements from which on an array is in memory and not in a cache."""
FORM = "{:.2f} reads"


def verdicts(
    speeds: Sequence[Speed], qualities: Sequence[Quality], corners: Sequence[Corner], paths: Sequence[Path]
) -> list[Verdict]:
    """On every target."""
    found = []
    for what, name, threads, memory, limits in (
        ("topk", TOPK, 1, True, (2.7, 2.0, 1.3)),
        ("topk", TOPK, 2, True, (2.2, 1.4, 1.0)),
        ("topk", TOPK, 1, False, (7, 5, 3.5)),
        ("topk of gradient + residual", FUSED, 1, True, (4.3, 3.6, 2.6)),
        ("sidco", "sidco(δ)", 1, True, (5, 5, 5)),
    ):
        where = f"from {LARGE:,} elements on" if memory else "below that"
        for density, limit in zip(DENSITIES, limits, strict=True):
            some = [s for s in speeds if (s.name, s.threads, s.density) == (name, threads, density)]
            some = [s for s in some if s.synthetic and (s.elements >= LARGE) == memory]
            target = f"{what} ≤ {limit} reads: {density:g}, {_threads(threads)}, {where}"
            found.append(at_most(target, limit, _of(some), FORM))
    for threads in (1, 2):
        target = (
            f"topk ≥ 40 × np.argpartition: 0.01 and 0.001, {_threads(threads)}, from {LARGE:,} elements on"
        )
        found.append(at_least(target, 40, _faster(speeds, threads), "{:.1f}×"))
    large = [s for s in speeds if s.name == "adacomp(50)" and s.elements >= LARGE]
    found.append(at_most("adacomp ≤ 4 reads", 4, _of(large), FORM))
    for what, misled in (("input", (0, 1)), ("input, also with the clock stopped,", (2,))):
        worst = [(c.name, max(c.reads)) for c in corners if c.samples in misled]
        found.append(at_most(f"topk: no {what} takes more than 12 reads", 12, worst, FORM))
    for feedback in (False, True):
        name = f"sidco within 12 % of k at every iteration, {'with' if feedback else 'without'} feedback"
        some_ = [q for q in qualities if q.real and q.name == "sidco" and q.feedback == feedback]
        off = [(f"{q.stream}, {q.density:g}", 100 * max(abs(r - 1) for r in q.ratios)) for q in some_]
        found.append(at_most(name, 12, off, "{:.1f} %"))
    one = [p for p in paths if p.scheme == "topk(0.01) | rice | raw(bfloat16)"]
    found.append(at_most("encode at 1 % ≤ 3 reads", 3, [(_plain(p.scheme), p.encode) for p in one], FORM))
    found.append(
        at_most("decode_add at 1 % ≤ 1.5 reads", 1.5, [(_plain(p.scheme), p.add) for p in one], FORM)
    )
    return found


def _of(speeds: Sequence[Speed]) -> Measures:
    return [(s.array, s.reads) for s in speeds]


def _faster(speeds: Sequence[Speed], threads: int) -> Measures:
    """How many times ``np.argpartition``, which knows one thread, takes the time of exact top-k."""
    some = [s for s in speeds if s.synthetic and s.elements >= LARGE and s.density <= 0.01]
    theirs = {(s.array, s.density): s.reads for s in some if s.name == "np.argpartition"}
    ours = [s for s in some if (s.name, s.threads) == (TOPK, threads)]
    return [
        (f"{s.array}, {s.density:g}", theirs[s.array, s.density] / s.reads)
        for s in ours
        if (s.array, s.density) in theirs
    ]


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _plain(scheme: str) -> str:
    return scheme.replace("|", "·")
