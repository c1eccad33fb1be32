"""Targets of ``budget``, checked against the measurements."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.budget.cost import Cost
from benchmarks.budget.feedback import FeedbackRun
from benchmarks.budget.measurement import Point, best_error
from benchmarks.budget.schemes import GRID
from benchmarks.common.targets import TargetResult, check_at_least, check_at_most

__all__ = ["check_targets", "format_scheme", "is_budget"]

LEAST_SIZE = 65_536
LEAST, MOST = 0.95, 1.0
"""Bytes in budgets."""
MOST_READS = 1.2


def is_budget(point: Point) -> bool:
    """Check whether a point is one of ``budget``."""
    return point.asked is not None


def format_scheme(scheme: str) -> str:
    """Format a scheme for a table, whose cells are separated by the sign between stages."""
    return f"`{scheme}`".replace("|", "·")


def check_targets(
    points: Sequence[Point], costs: Sequence[Cost], runs: Sequence[FeedbackRun]
) -> list[TargetResult]:
    """Check all targets."""
    budgets = [point for point in points if is_budget(point) and point.size >= LEAST_SIZE]
    spent = [(_name(point), point.spent) for point in budgets]
    same, allowed = [], []
    for point in budgets:
        grid = [one for one in points if (one.gradient, one.family) == (point.gradient, GRID)]
        same.append((_name(point), point.error / best_error(grid, point.nbytes)))
        most = (point.asked or 0) * point.size / 8
        allowed.append((_name(point), point.error / best_error(grid, most)))
    results = [
        check_at_least(f"bytes ≥ {LEAST} budgets", LEAST, spent, "{:.4f}"),
        check_at_most(f"bytes ≤ {MOST} budgets", MOST, spent, "{:.4f}"),
        check_at_most("squared error ≤ 1.00 × the grid's best at no more bytes", 1.0, same),
        check_at_most("the same, the grid's best at no more bytes than the budget", 1.0, allowed, "{:.4f}"),
        check_at_most(
            f"whole encode ≤ {MOST_READS} reads more than topk's",
            MOST_READS,
            [(f"{cost.size:,} elements, {cost.bits:g} bits", cost.excess) for cost in costs],
            "{:.1f} reads",
        ),
    ]
    if not runs:
        return results
    ours, others = runs[0], runs[1:]
    steps = [(f"step {n}", one) for n, one in enumerate(ours.spent)]
    return [
        *results,
        check_at_least(f"feedback: bytes of each step ≥ {LEAST} budgets", LEAST, steps, "{:.4f}"),
        check_at_most(f"feedback: bytes of each step ≤ {MOST} budgets", MOST, steps, "{:.4f}"),
        check_at_most(
            "feedback: last residual ≤ that of topk at equal bytes",
            1.0,
            [(format_scheme(run.scheme), ours.norms[-1] / run.norms[-1]) for run in others],
        ),
    ]


def _name(point: Point) -> str:
    return f"{point.gradient}, {point.asked:g} bits, {point.family}"
