"""Targets of the selectors, checked against the measurements."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.targets import LabelledValues, TargetResult, check_at_least, check_at_most
from benchmarks.select.slow_inputs import SlowInput
from benchmarks.select.speeds import FUSED, TOPK, SchemeSpeed, Speed

__all__ = ["LARGE", "check_targets"]

LARGE = 26_000_000
"""Number of elements above which an array exceeds the caches."""
READS = "{:.2f} reads"


def check_targets(
    speeds: Sequence[Speed], inputs: Sequence[SlowInput], schemes: Sequence[SchemeSpeed]
) -> list[TargetResult]:
    """Check every target."""
    return [*_check_speeds(speeds), *_check_slow_inputs(inputs), *_check_schemes(schemes)]


def _check_speeds(speeds: Sequence[Speed]) -> list[TargetResult]:
    results = []
    for label, name, threads, large, limits in (
        ("topk", TOPK, 1, True, (2.7, 2.0, 1.3)),
        ("topk", TOPK, 2, True, (2.2, 1.4, 1.0)),
        ("topk", TOPK, 1, False, (7, 5, 3.5)),
        ("topk of gradient + residual", FUSED, 1, True, (4.3, 3.6, 2.6)),
        ("sidco", "sidco(δ)", 1, True, (5, 5, 5)),
    ):
        for density, limit in zip(DENSITIES, limits, strict=True):
            chosen = [s for s in speeds if (s.name, s.threads, s.density) == (name, threads, density)]
            chosen = [s for s in chosen if s.synthetic and (s.elements >= LARGE) == large]
            condition = f"{_format_threads(threads)}, {'≥' if large else '<'} {LARGE:,} elements"
            target = f"{label} ≤ {limit} reads: {density:g}, {condition}"
            results.append(check_at_most(target, limit, _label_values(chosen), READS))
    for threads in (1, 2):
        condition = f"0.01 and 0.001, {_format_threads(threads)}, ≥ {LARGE:,} elements"
        target = f"topk ≥ 40 × as fast as np.argpartition: {condition}"
        results.append(check_at_least(target, 40, _compute_speed_ups(speeds, threads), "{:.1f}×"))
    adacomp = [s for s in speeds if s.name == "adacomp(50)" and s.elements >= LARGE]
    return [*results, check_at_most("adacomp ≤ 4 reads", 4, _label_values(adacomp), READS)]


def _check_slow_inputs(inputs: Sequence[SlowInput]) -> list[TargetResult]:
    results = []
    for condition, misled in (("every slow input", (0, 1)), ("both samples misled", (2,))):
        worst = [(each.name, max(each.reads)) for each in inputs if each.misled_samples in misled]
        results.append(check_at_most(f"topk ≤ 12 reads: {condition}", 12, worst, READS))
    return results


def _check_schemes(schemes: Sequence[SchemeSpeed]) -> list[TargetResult]:
    chosen = [s for s in schemes if s.scheme == "topk(0.01) | rice | raw(bfloat16)"]
    encode = [(s.scheme.replace("|", "·"), s.encode) for s in chosen]
    decode_add = [(s.scheme.replace("|", "·"), s.decode_add) for s in chosen]
    return [
        check_at_most("encode at 1 % ≤ 3 reads", 3, encode, READS),
        check_at_most("decode_add at 1 % ≤ 1.5 reads", 1.5, decode_add, READS),
    ]


def _label_values(speeds: Sequence[Speed]) -> LabelledValues:
    return [(s.array, s.reads) for s in speeds]


def _compute_speed_ups(speeds: Sequence[Speed], threads: int) -> LabelledValues:
    """Return the speed-ups of exact top-k over ``np.argpartition``, which uses one thread."""
    chosen = [s for s in speeds if s.synthetic and s.elements >= LARGE and s.density <= 0.01]
    theirs = {(s.array, s.density): s.reads for s in chosen if s.name == "np.argpartition"}
    ours = [s for s in chosen if (s.name, s.threads) == (TOPK, threads)]
    return [
        (f"{s.array}, {s.density:g}", theirs[s.array, s.density] / s.reads)
        for s in ours
        if (s.array, s.density) in theirs
    ]


def _format_threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"
