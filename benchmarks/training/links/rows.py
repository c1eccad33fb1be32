"""Rows of training over shaped links: one per link and method, from the records of the runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.training.rows import count_steps

__all__ = ["SLACK", "Row", "build_rows", "compute_final_loss", "find_seconds"]

SLACK = 1.02
"""Factor of dense's final loss that a method has to reach."""


@dataclass(frozen=True)
class Row:
    """Result of one method on one link.

    Attributes:
        link: its rate.
        method: its name.
        step_ms: median milliseconds of a step.
        final_loss: mean loss of the last twentieth of the steps.
        seconds: until dense's final loss + 2 %, or None if the final loss is above it.
        speed_up: dense's seconds relative to these, or None if one of them is missing.
    """

    link: str
    method: str
    step_ms: float
    final_loss: float
    seconds: float | None
    speed_up: float | None


def build_rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Build the rows in the order of the records.

    Args:
        records: of ``benchmarks.training.links.rank``.
    """
    dense = {record["link"]: record for record in records if record["method"] == "dense"}
    goals = {link: SLACK * compute_final_loss(record) for link, record in dense.items()}
    baselines = {link: find_seconds(record, goals[link]) for link, record in dense.items()}
    rows = []
    for record in records:
        link, goal = record["link"], goals.get(record["link"])
        found = None if goal is None else find_seconds(record, goal)
        baseline = baselines.get(link)
        ratio = baseline / found if baseline and found else None
        median = 1e3 * _find_step(record)
        rows.append(Row(link, record["method"], median, compute_final_loss(record), found, ratio))
    return rows


def find_seconds(record: dict[str, Any], goal: float) -> float | None:
    """Return the seconds until a record's smoothed loss reaches a goal; None if it ends above the goal.

    The batches' noise can bring a loss below the goal for a few steps.
    """
    if compute_final_loss(record) > goal:
        return None
    step = count_steps(record["losses"], goal, len(record["losses"]))
    return None if step is None else float(record["seconds"][step - 1])


def compute_final_loss(record: dict[str, Any]) -> float:
    """Return the mean loss of the last twentieth of the steps."""
    losses = record["losses"]
    return statistics.fmean(losses[-max(1, len(losses) // 20) :])


def _find_step(record: dict[str, Any]) -> float:
    """Return the median seconds of a record's steps."""
    times = record["seconds"]
    return float(statistics.median(b - a for a, b in zip([0.0, *times[:-1]], times, strict=True)))
