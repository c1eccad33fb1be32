"""Targets of the training benchmark, and whether they are met."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown
from benchmarks.training.rows import SEEDS, Row, compare
from benchmarks.training.tasks.task import Task

__all__ = ["REFERENCES", "TARGETS", "format_targets"]


@dataclass(frozen=True)
class Target:
    """Largest loss of quality at a number of bits, or of named systems.

    Attributes:
        bits: most bits per parameter, worker and step.
        worse: largest relative distance from dense; None for the standard deviation of dense's seeds.
        tasks: names; all if empty.
        systems: names; all if empty.
        about: what ``systems`` have in common.
    """

    bits: float = math.inf
    worse: float | None = 0.0
    tasks: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Reference:
    """Quality of another system, to be reached with fewer bits.

    Attributes:
        system: its name.
        share: its bits over the most bits.
        bits: most bits, if fewer than that.
    """

    system: str
    share: float = 1.0
    bits: float = math.inf


TARGETS = (
    Target(0.64, tasks=("text-lstm", "images", "text-transformer", "recommendations")),
    Target(0.25, 0.01, ("text-lstm",)),
    Target(0.1, 0.02, ("text-lstm",)),
    Target(0.035, 0.03, ("text-lstm",)),
    *(Target(bits, most, ("text-long",)) for bits, most in ((0.0073, 0.01), (0.0037, 0.02), (0.0018, 0.05))),
    Target(
        worse=None,
        tasks=("images", "images-long", "recommendations"),
        systems=(
            *("top-k 0.1 % as published", "top-k 0.1 %", "top-k 0.1 %, warm-up", "dgc"),
            *("sidco", "SIDCo, our controller, warm-up"),
            "top-k 0.1 %, corrected momentum",
            *("local updates every 4, 0.1 % per step", "local updates every 16, 0.1 % per step"),
        ),
        about="0.1 % of the elements",
    ),
)
REFERENCES = (Reference("PowerSGD, rank 4", 8), Reference("local updates, dense", bits=0.07))
ROUNDING = 1.005


def format_targets(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> str:
    """Format a table of the targets: the best system within each target's bits, and whether it is met.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    lines = []
    for task in tasks:
        rows = {row.system.name: row for row in found.get(task.name, ())}
        if "dense" not in rows:
            continue
        lines += [_check_target(task, target, rows) for target in TARGETS if _applies(target, task)]
        lines += [_check_reference(task, one, rows) for one in REFERENCES if one.system in rows]
    if not lines:
        return ""
    return "## Targets\n\n" + format_markdown(
        ["target", "best system", "bits", "worse than dense", "met"], lines
    )


def _applies(target: Target, task: Task) -> bool:
    return not target.tasks or task.name in target.tasks


def _check_target(task: Task, target: Target, rows: Mapping[str, Row]) -> list[str]:
    dense = rows["dense"]
    names = target.systems or rows
    fitting = [row for name, row in rows.items() if name in names and row.best.bits <= target.bits * ROUNDING]
    if target.worse is None:
        sign = -1 if task.higher_is_better else 1
        limit = compare(task, dense.test + sign * dense.deviation, dense.test)
        text = "within dense's deviation" + ("" if math.isnan(limit) else f" ({limit:+.1%})")
    else:
        limit = target.worse
        text = f"at most {limit:+.0%}"
    what = target.about or f"at most {target.bits:g} bits"
    return [f"{task.name}: {what}, {text}", *_describe_best(task, fitting, limit, dense)]


def _check_reference(task: Task, reference: Reference, rows: Mapping[str, Row]) -> list[str]:
    other, dense = rows[reference.system], rows["dense"]
    bits = min(other.best.bits / reference.share, reference.bits)
    worse = compare(task, other.test, dense.test)
    fitting = [row for row in rows.values() if row.best.bits <= bits * ROUNDING]
    name = f"quality of {other.system.name} ({worse:+.1%} at {other.best.bits:.3g} bits)"
    return [f"{task.name}: {name}, at most {bits:.2g} bits", *_describe_best(task, fitting, worse, dense)]


def _describe_best(task: Task, rows: Sequence[Row], limit: float, dense: Row) -> list[str]:
    if not rows:
        return ["", "", "", "not run yet"]
    best = min(rows, key=lambda row: compare(task, row.test, dense.test))
    worse = compare(task, best.test, dense.test)
    met = "yes" if worse <= limit else "one seed of dense" if math.isnan(limit) else "no"
    if not math.isnan(limit) and len(best.tests) < SEEDS:
        met += ", one seed" if len(best.tests) == 1 else f", {len(best.tests)} seeds"
    complete = dense.tries == dense.grid and best.tries == best.grid
    provisional = "" if complete else ", provisional: grid incomplete"
    return [best.system.name, f"{best.best.bits:.3g}", f"{worse:+.1%}", met + provisional]
