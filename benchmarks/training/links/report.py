"""Page of training over shaped links."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.common.results import format_markdown
from benchmarks.common.targets import TargetResult, check_at_least, format_targets
from benchmarks.training.rows import count_steps

__all__ = ["OURS", "SLACK", "check_targets", "compute_final_loss", "find_seconds", "find_step", "format_page"]

ABOUT = """The character LSTM, {ranks} ranks over gloo, one per host, {steps:,} steps. A final loss is the
mean of the last twentieth of the steps. If it is above dense's + 2 %, the method has no seconds.
All methods use the learning rate 0.016. PowerSGD is torch's hook; its target compares the rank that is first.

Local updates differ in two ways. Their loss is the mean of the ranks' own models, not that of the shared one.
Their norm is limited per rank, not that of the mean gradient. Every 15 steps with 1 bit per exchange, they
ended 3.1 % above dense in an earlier run; exchanges every 4 steps were chosen after it. Those every 6 steps,
with 0.1 bits per step and an inner momentum of 0.5, were added after all other results on this page.

"""
COMPUTING = """
Most steps of local updates exchange nothing. Their median, {computing:.0f} ms, is the time of computing: all
ranks share this machine's cores. At {link}, a step without any exchange is {most:.1f} times as fast as
one of dense.
"""
PICTURE = "![training loss over seconds](training_links.png)\n"
SLACK = 1.02
"""Factor of dense's final loss that a method has to reach."""
OURS = (
    "budget 0.25, overlapped",
    "budget 0.25, after backward",
    "local updates every 4",
    "local updates every 6",
)
TARGETS = {"dense": 10.0, "fp16": 3.0, "PowerSGD": 2.0}
"""How many times sooner than each method one of ours has to reach the loss, on the slowest link.

PowerSGD is compared at the rank that reaches it first.
"""
SLOWEST = "100 Mbit"
HEADER = [
    "link, method",
    "ms per step (median)",
    "final loss",
    "seconds to dense's loss + 2 %",
    "dense takes",
]


def find_seconds(record: dict[str, Any], goal: float) -> float | None:
    """Return the seconds until a record's smoothed loss reaches a goal; None if it ends above the goal.

    The batches' noise can bring a loss below the goal for a few steps.
    """
    if compute_final_loss(record) > goal:
        return None
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
            rows.append(
                [
                    f"{link}, {record['method']}",
                    f"{1e3 * find_step(record):.0f}",
                    f"{compute_final_loss(record):.3f}",
                    "-" if found is None else f"{found:.1f}",
                    f"{baseline / found:.2f} × as long" if baseline and found else "",
                ]
            )
    about = ABOUT.format(ranks=ranks, steps=steps)
    parts = [about, format_markdown(HEADER, rows), _format_limit(records), f"\n{PICTURE}\n## Targets\n\n"]
    return "".join([*parts, format_targets(check_targets(records))])


def find_step(record: dict[str, Any]) -> float:
    """Return the median seconds of a record's steps."""
    times = record["seconds"]
    return float(statistics.median(b - a for a, b in zip([0.0, *times[:-1]], times, strict=True)))


def _format_limit(records: Sequence[dict[str, Any]]) -> str:
    """Say how long a step computes, and what that allows; nothing if a record is missing."""
    computing = [find_step(record) for record in records if record["method"] == OURS[-1]]
    slowest = [r for r in records if r["method"] == "dense" and r["link"] == SLOWEST]
    if not computing or not slowest:
        return ""
    least = min(computing)
    return COMPUTING.format(computing=1e3 * least, link=SLOWEST, most=find_step(slowest[0]) / least)


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
        baseline = min((s for method, s in found.items() if method.startswith(other) and s), default=None)
        values = [(f"{best:.0f} s and {baseline:.0f} s", baseline / best)] if best and baseline else []
        results.append(check_at_least(target, factor, values, "{:.2f}×"))
    return results


def compute_final_loss(record: dict[str, Any]) -> float:
    """Return the mean loss of the last twentieth of the steps."""
    losses = record["losses"]
    return statistics.fmean(losses[-max(1, len(losses) // 20) :])
