"""Rows of the page: results of a system at its best settings, beside those of dense."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from benchmarks.training.plan import Plan, pick_best
from benchmarks.training.runs import Result
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task

__all__ = [
    "CONFIDENCE",
    "LEAST",
    "SEEDS",
    "Difference",
    "Row",
    "collect_rows",
    "compare",
    "count_steps",
    "measure_difference",
    "measure_interval",
]

SLACK = 1.05
"""Factor of dense's final loss that a run has to reach."""
SEEDS = 3
"""Seeds that a verdict needs."""
CONFIDENCE = 0.95
"""Level of the interval of a difference."""
LEAST = 0.01
"""Least relative difference that matters."""


@dataclass(frozen=True)
class Difference:
    """Relative difference of two means, and the half width of its interval.

    Attributes:
        worse: how much worse the first mean is, negative if it is better.
        half: of the interval's width; None if there are too few seeds.
    """

    worse: float
    half: float | None

    @property
    def verdict(self) -> str:
        """Return "better", "worse", "no difference" or "undecided"."""
        if self.half is None:
            return "undecided"
        if abs(self.worse) + self.half <= LEAST:
            return "no difference"
        if abs(self.worse) > max(self.half, LEAST):
            return "worse" if self.worse > 0 else "better"
        return "undecided"

    def __str__(self) -> str:
        """Return the difference and, if it is known, its interval."""
        return f"{self.worse:+.1%}" if self.half is None else f"{self.worse:+.1%} ± {self.half:.1%}"


@dataclass(frozen=True)
class Row:
    """One system on one task.

    Attributes:
        system: the system.
        best: result at the best settings, seed 0.
        tries: number of grid points with a result.
        grid: number of grid points.
        tests: test metric of each seed at the best settings.
        at_edge: whether the best rate is the smallest or the largest that was tried.
        steps: until dense's final loss + 5 % of each seed; None if not reached.
        diverged: seeds that diverged; they are in none of the others.
    """

    system: System
    best: Result
    tries: int
    grid: int
    tests: tuple[float, ...]
    at_edge: bool
    steps: tuple[int | None, ...]
    diverged: int = 0

    @property
    def test(self) -> float:
        """Return the mean test metric."""
        return statistics.fmean(self.tests)

    @property
    def deviation(self) -> float:
        """Return the standard deviation over seeds, NaN for one seed."""
        return statistics.stdev(self.tests) if len(self.tests) > 1 else math.nan


def count_steps(losses: Sequence[float], goal: float, steps: int) -> int | None:
    """Return after how many steps the mean loss of the last 1/30 of a run reaches a goal, or None.

    Args:
        losses: curve of the run, at equal distances.
        goal: loss to reach.
        steps: of the run.
    """
    window = max(1, len(losses) // 30)
    total = 0.0
    for point, loss in enumerate(losses):
        total += loss - (losses[point - window] if point >= window else 0)
        if point + 1 >= window and total <= goal * window:
            return round((point + 1) * steps / len(losses))
    return None


def compare(task: Task, value: float, dense: float) -> float:
    """Return how much worse a metric is than dense's: a fraction, negative if better.

    Accuracies and hit rates compare the distance from 100 %.
    """
    if task.higher_is_better:
        return (100 - value) / (100 - dense) - 1 if dense < 100 else math.nan
    return value / dense - 1


def measure_interval(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return half the width of the interval of the difference of two means; None if there are too few values.

    It is the standard error of the difference times a quantile of Student's t, with Welch's degrees of
    freedom: the two systems' deviations may differ.
    """
    if min(len(one), len(other)) < SEEDS:
        return None
    squares = [statistics.variance(values) / len(values) for values in (one, other)]
    if not any(squares):
        return 0.0
    degrees = sum(squares) ** 2 / sum(
        square**2 / (len(values) - 1) for square, values in zip(squares, (one, other), strict=True)
    )
    return float(student.ppf((1 + CONFIDENCE) / 2, degrees)) * math.sqrt(sum(squares))


def measure_difference(task: Task, one: Row, other: Row) -> Difference:
    """Return how much worse one system is than another, with an interval, relative to the other."""
    scale = 100 - other.test if task.higher_is_better else other.test
    half = measure_interval(one.tests, other.tests)
    return Difference(compare(task, one.test, other.test), None if half is None else half / scale)


def collect_rows(plan: Plan, task: Task, systems: Sequence[System]) -> list[Row]:
    """Return a row per system that has results; the grid may be incomplete."""
    goal = math.nan
    rows = []
    for system in systems:
        points = plan.tune(task, system)
        tuned = [result for result in plan.find(points) if result]
        best = pick_best(tuned, higher_is_better=task.higher_is_better)
        if best is None:
            continue
        ended = [result for result in plan.find(plan.repeat(task, system)) if result]
        seeds = [result for result in ended if not result.diverged] or [best]
        if system.name == "dense":
            goal = SLACK * statistics.fmean(result.final_loss for result in seeds)
        rate, rates = best.run.settings.rate, [run.settings.rate for run in points]
        rows.append(
            Row(
                system,
                best,
                len(tuned),
                len(points),
                tuple(result.test for result in seeds),
                len(rates) > 1 and rate in (min(rates), max(rates)),
                tuple(count_steps(result.losses, goal, result.run.steps) for result in seeds),
                len([result for result in ended if result.diverged]),
            )
        )
    return rows
