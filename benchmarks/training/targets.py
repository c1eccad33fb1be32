"""Targets of the training benchmark, and whether they are met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown
from benchmarks.training.rows import Row, compare
from benchmarks.training.tasks.task import Task

__all__ = ["format_targets"]


@dataclass(frozen=True)
class Target:
    """Largest loss of quality at a number of bits.

    Attributes:
        bits: most bits per parameter, worker and step.
        worse: largest relative distance from dense.
        tasks: names; all if empty.
    """

    bits: float
    worse: float
    tasks: tuple[str, ...] = ()


TARGETS = (
    Target(0.64, 0.0),
    Target(0.25, 0.01, ("text-lstm",)),
    Target(0.1, 0.02, ("text-lstm",)),
    Target(0.035, 0.04, ("text-lstm",)),
)
POWER_SHARE = 8
"""PowerSGD's bytes over ours, at its quality."""
ROUNDING = 1.005


def format_targets(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> str:
    """Format a table of the targets: the best system within each target's bits, and whether it is met.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    lines = []
    for task in tasks:
        rows = found.get(task.name, ())
        dense = next((row for row in rows if row.system.name == "dense"), None)
        if dense is None:
            continue

        def measure(row: Row, task: Task = task, dense: Row = dense) -> float:
            return compare(task, row.test, dense.test)

        for target in TARGETS:
            if target.tasks and task.name not in target.tasks:
                continue
            fitting = [row for row in rows if row.best.bits <= target.bits * ROUNDING]
            name = f"{task.name}: at most {target.bits:g} bits, at most {target.worse:+.0%}"
            lines.append(
                [name, *_describe_best(fitting, measure, target.worse, complete=dense.tries == dense.grid)]
            )
        lines += _compare_powersgd(task.name, rows, measure)
    if not lines:
        return ""
    return "## Targets\n\n" + format_markdown(
        ["target", "best system", "bits", "worse than dense", "met"], lines
    )


def _describe_best(
    rows: Sequence[Row], measure: Callable[[Row], float], limit: float, *, complete: bool
) -> list[str]:
    if not rows:
        return ["", "", "", "not run yet"]
    best = min(rows, key=measure)
    worse = measure(best)
    met = "yes" if worse <= limit else "no"
    provisional = "" if complete and best.tries == best.grid else ", provisional: grid incomplete"
    return [best.system.name, f"{best.best.bits:.3g}", f"{worse:+.1%}", met + provisional]


def _compare_powersgd(task: str, rows: Sequence[Row], measure: Callable[[Row], float]) -> list[list[str]]:
    power = next((row for row in rows if row.system.name == "PowerSGD, rank 4"), None)
    if power is None:
        return []
    bits = power.best.bits / POWER_SHARE
    fitting = [row for row in rows if row.best.bits <= bits]
    name = (
        f"{task}: PowerSGD's quality ({measure(power):+.1%} at {power.best.bits:.3g} bits) at 1/8 of its bits"
    )
    return [[name, *_describe_best(fitting, measure, measure(power), complete=power.tries == power.grid)]]
