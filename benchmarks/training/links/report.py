"""Page of training over shaped links."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.common.results import format_markdown
from benchmarks.common.targets import TargetResult, check_at_least, format_targets
from benchmarks.training.rows import count_steps

__all__ = ["OURS", "SLACK", "check_targets", "compute_final_loss", "find_seconds", "format_page"]

PICTURE = "![training loss over seconds](training_links.png)\n"
SLACK = 1.02
"""Factor of dense's final loss that a method has to reach."""
OURS = ("budget 0.25, overlapped", "budget 0.25, after backward", "local updates")
TARGETS = {"dense": 10.0, "fp16": 3.0, "PowerSGD, rank 4": 2.0}
"""How many times sooner than each method one of ours has to reach the loss, on the slowest link."""
SLOWEST = "100 Mbit"
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
        goal = SLACK * compute_final_loss(dense) if dense else float("nan")
        baseline = find_seconds(dense, goal) if dense else None
        for record in chosen:
            found = find_seconds(record, goal)
            times = record["seconds"]
            step = statistics.median(b - a for a, b in zip([0.0, *times[:-1]], times, strict=True))
            rows.append(
                [
                    f"{link}, {record['method']}",
                    f"{1e3 * step:.0f}",
                    f"{compute_final_loss(record):.3f}",
                    "-" if found is None else f"{found:.1f}",
                    f"{baseline / found:.2f} × as long" if baseline and found else "",
                ]
            )
    about = f"The character LSTM, {ranks} ranks over gloo, one per host, {steps:,} steps.\n\n"
    parts = [about, format_markdown(HEADER, rows), f"\n{PICTURE}\n## Targets\n\n"]
    return "".join([*parts, format_targets(check_targets(records))])


def check_targets(records: Sequence[dict[str, Any]]) -> list[TargetResult]:
    """Check how much sooner our best method on the slowest link reaches dense's final loss + 2 %."""
    chosen = {record["method"]: record for record in records if record["link"] == SLOWEST}
    results = []
    for other, factor in TARGETS.items():
        target = f"{factor:g} × sooner than {other}, {SLOWEST}"
        found: dict[str, float | None] = {}
        if "dense" in chosen:
            goal = SLACK * compute_final_loss(chosen["dense"])
            found = {method: find_seconds(record, goal) for method, record in chosen.items()}
        best = min((s for method in OURS if (s := found.get(method))), default=None)
        baseline = found.get(other)
        values = [(f"{best:.0f} s and {baseline:.0f} s", baseline / best)] if best and baseline else []
        results.append(check_at_least(target, factor, values, "{:.2f}×"))
    return results


def compute_final_loss(record: dict[str, Any]) -> float:
    """Return the mean loss of the last twentieth of the steps."""
    losses = record["losses"]
    return statistics.fmean(losses[-max(1, len(losses) // 20) :])
