"""Targets of whole steps and small calls, checked against the measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.common.targets import TargetResult, check_at_most
from benchmarks.step.models import MODELS
from benchmarks.step.rows import LOOPBACK, SLOW, Row
from benchmarks.step.small import FEW, SmallCalls
from benchmarks.step.systems import DEFAULT, OFF

__all__ = ["MAX_DEFAULT", "MAX_RATIOS", "check_targets", "compare_default"]

MLP, TRANSFORMER, _ = MODELS
TARGET_RANKS = 2
MAX_RATIOS = {LOOPBACK: 4.0, SLOW: 1.3}
"""{link: largest ratio to the floor of the MLP, without overlap}."""
MAX_DEFAULT = 1.05
"""Of the default's time to that without overlap; the excess over 1 is for the noise of the rounds."""
MAX_HOOK_MILLISECONDS = 25.0
MAX_CALL_MILLISECONDS, MAX_TENSOR_MICROSECONDS = 1.0, 20.0


def check_targets(rows: Sequence[Row], small: SmallCalls | None) -> list[TargetResult]:
    """Check every target.

    Args:
        rows: of all jobs.
        small: times of small calls, if they were measured.
    """
    two = [row for row in rows if row.ranks == TARGET_RANKS]
    off = [row for row in two if row.system == OFF]
    results = []
    for link, limit in MAX_RATIOS.items():
        ratios = [(row.case, row.ratio or 0.0) for row in off if (row.model, row.link) == (MLP, link)]
        results.append(
            check_at_most(f"{MLP}, {OFF}: ≤ {limit:g} × the floor, {link}", limit, ratios, "{:.2f} ×")
        )
    target = f"{DEFAULT} (default) ≤ {MAX_DEFAULT:g} × overlap=False, median of the rounds"
    results.append(check_at_most(target, MAX_DEFAULT, compare_default(rows), "{:.2f} ×"))
    above = [
        (row.case, 1e3 * (row.seconds - row.computing))
        for row in off
        if (row.model, row.link) == (TRANSFORMER, LOOPBACK)
    ]
    target = f"{TRANSFORMER}, {OFF}: ≤ {MAX_HOOK_MILLISECONDS:g} ms above computing alone, {LOOPBACK}"
    results.append(check_at_most(target, MAX_HOOK_MILLISECONDS, above, "{:.1f} ms"))
    call = [("2 MPI ranks", 1e3 * small.call)] if small else []
    target = f"call with {FEW} tensors ≤ {MAX_CALL_MILLISECONDS:.1f} ms"
    results.append(check_at_most(target, MAX_CALL_MILLISECONDS, call, "{:.2f} ms"))
    each = [("2 MPI ranks", 1e6 * statistics.median(small.per_tensor))] if small else []
    target = f"each further tensor ≤ {MAX_TENSOR_MICROSECONDS:g} µs"
    return [*results, check_at_most(target, MAX_TENSOR_MICROSECONDS, each, "{:.1f} µs")]


def compare_default(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """Compare the default's time with that without overlap: the median of the ratios of the rounds."""
    off = {(row.model, row.ranks, row.link): row for row in rows if row.system == OFF}
    found = []
    for row in (row for row in rows if row.system == DEFAULT):
        other = off.get((row.model, row.ranks, row.link))
        if other is not None:
            ratios = [mine / its for mine, its in zip(row.times, other.times, strict=False)]
            found.append((row.case, statistics.median(ratios)))
    return found
