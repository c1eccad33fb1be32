"""Targets of the kernels, checked against the measured times."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.targets import TargetResult, check_at_least, check_at_most
from benchmarks.gpu import patches
from benchmarks.gpu.cases import KernelTime
from benchmarks.gpu.peers import TORCH_TOPK

__all__ = ["LARGE", "check_targets"]

LARGE = 260_000_000
"""Elements of the gradient to which some targets refer."""
COLD, WARM = "exact top-k, cold", "exact top-k, warm"
FRACTIONS = {
    "select + bitmap + compact": 0.75,
    COLD: 0.75,
    WARM: 0.70,
    "sums for SIDCo": 0.75,
    "pack, 4 bits": 0.70,
    "qsgd": 0.70,
    "offset-float": 0.70,
}
"""Smallest fraction of the copy bandwidth."""
EXCESS = {
    "residual + select + rice": 1.35,
    "residual + exact top-k, warm + rice + qsgd": 1.35,
    "decode_add": 1.5,
    "decode_add of a container on the host": 1.5,
}
"""Largest multiple of the time of the minimum traffic at copy bandwidth."""
COPIES = {"encode": 3.0, patches.DIFF: 6.0, patches.APPLY: 6.0}
"""Largest multiple of the time of a copy of the gradient."""


def check_targets(times: Sequence[KernelTime]) -> list[TargetResult]:
    """Check each target at all sizes."""
    results = []
    for name, limit in FRACTIONS.items():
        values = [(f"{time.elements:,}", time.fraction) for time in times if time.name == name]
        text = f"{name}: at least {limit:.0%} of the copy bandwidth"
        results.append(check_at_least(text, limit, values, "{:.0%}"))
    for name, limit in EXCESS.items():
        values = [(f"{time.elements:,}", 1 / time.fraction) for time in times if time.name == name]
        text = f"{name}: at most {limit:g}× the time of its minimum traffic"
        results.append(check_at_most(text, limit, values, "{:.2f}×"))
    for name, limit in COPIES.items():
        values = [(f"{time.elements:,}", time.copies) for time in times if time.name == name]
        results.append(check_at_most(f"{name}: at most {limit:g} copies", limit, values, "{:.2f} copies"))
    return results + _check_topk(times)


def _check_topk(times: Sequence[KernelTime]) -> list[TargetResult]:
    """Check the top-k of a large gradient against a copy, and against torch's."""
    large = {time.name: time for time in times if time.elements == LARGE}
    found = [(name, large[name]) for name in (COLD, WARM) if name in large]
    copies = [(name, time.copies) for name, time in found]
    peer = large.get(TORCH_TOPK)
    ratios = [(name, peer.ms / time.ms) for name, time in found] if peer else []
    what = f"top-k of 1 % of {LARGE // 10**6}M"
    return [
        check_at_most(f"{what}: at most 2 copies", 2, copies, "{:.2f} copies"),
        check_at_least(f"{what}: at least 10 times as fast as {TORCH_TOPK}", 10, ratios, "{:.1f}×"),
    ]
