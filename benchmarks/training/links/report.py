"""Page of training over shaped links."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.common.results import format_markdown
from benchmarks.training.rows import count_steps

__all__ = ["find_seconds", "format_page"]

SLACK = 1.02
"""Factor of dense's final loss that a method has to reach."""
HEADER = [
    "link, method",
    "ms per step (median)",
    "final loss",
    "seconds to dense's loss + 2 %",
    "dense takes",
]


def find_seconds(record: dict[str, Any], goal: float) -> float | None:
    """Return the seconds until a record's smoothed loss reaches a goal, or None."""
    step = count_steps(record["losses"], goal, len(record["losses"]))
    return None if step is None else float(record["seconds"][step - 1])


def format_page(records: Sequence[dict[str, Any]], *, ranks: int, steps: int) -> str:
    """Format the page as Markdown.

    Args:
        records: of ``benchmarks.training.links.rank``.
        ranks, steps: of every record.
    """
    rows = []
    for link in dict.fromkeys(record["link"] for record in records):
        chosen = [record for record in records if record["link"] == link]
        dense = next((record for record in chosen if record["method"] == "dense"), None)
        goal = SLACK * _compute_final_loss(dense) if dense else float("nan")
        baseline = find_seconds(dense, goal) if dense else None
        for record in chosen:
            found = find_seconds(record, goal)
            times = record["seconds"]
            step = statistics.median(b - a for a, b in zip([0.0, *times[:-1]], times, strict=True))
            rows.append(
                [
                    f"{link}, {record['method']}",
                    f"{1e3 * step:.0f}",
                    f"{_compute_final_loss(record):.3f}",
                    "-" if found is None else f"{found:.1f}",
                    f"{baseline / found:.2f} × as long" if baseline and found else "",
                ]
            )
    about = f"The character LSTM, {ranks} ranks over gloo, one per host, {steps:,} steps.\n\n"
    return about + format_markdown(HEADER, rows)


def _compute_final_loss(record: dict[str, Any]) -> float:
    losses = record["losses"]
    return statistics.fmean(losses[-max(1, len(losses) // 20) :])
