"""Page of training over shaped links."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.results import format_markdown
from benchmarks.common.targets import TargetResult, check_at_least, format_targets
from benchmarks.training.links.rows import Row

__all__ = ["OURS", "check_targets", "format_page"]

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
ranks share this machine's cores. At {link}, a step without any exchange is {most:.0f} times as fast as
one of dense.
"""
PICTURE = "![seconds of every method](training_links.png)\n\n"
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


def format_page(rows: Sequence[Row], *, ranks: int, steps: int) -> str:
    """Format the page as Markdown.

    Args:
        rows: of all links and methods.
        ranks, steps: of every run.
    """
    table = [
        [
            f"{row.link}, {row.method}",
            f"{row.step_ms:.0f}",
            f"{row.final_loss:.3f}",
            "-" if row.seconds is None else f"{row.seconds:.1f}",
            "" if row.speed_up is None else f"{row.speed_up:.2f} × as long",
        ]
        for row in rows
    ]
    parts = [
        _format_answer(rows),
        PICTURE,
        "## Targets\n\n",
        format_targets(check_targets(rows)),
        "\n## Results\n\n",
        ABOUT.format(ranks=ranks, steps=steps),
        format_markdown(HEADER, table),
        _format_limit(rows),
    ]
    return "".join(parts)


def _format_answer(rows: Sequence[Row]) -> str:
    """Answer the benchmark's question, with one sentence per link."""
    answers = []
    for link in dict.fromkeys(row.link for row in rows):
        reached = {row.method: row.seconds for row in rows if row.link == link and row.seconds}
        ours = {method: seconds for method, seconds in reached.items() if method in OURS}
        others = {method: seconds for method, seconds in reached.items() if method not in OURS}
        if not ours or not others:
            continue
        first, best = min(ours, key=lambda one: ours[one]), min(others, key=lambda one: others[one])
        dense = f", and dense {reached['dense']:.0f} s" if "dense" in reached and best != "dense" else ""
        answers.append(
            f"At {link}/s, {first} reach dense's final loss + 2 % after {ours[first]:.0f} s. "
            f"{best}, the first of the others, takes {others[best]:.0f} s{dense}."
        )
    return " ".join(answers) + "\n\n" if answers else ""


def _format_limit(rows: Sequence[Row]) -> str:
    """Say how long a step computes, and what that allows; nothing if a row is missing."""
    computing = [row.step_ms for row in rows if row.method == OURS[-1]]
    slowest = [row.step_ms for row in rows if (row.method, row.link) == ("dense", SLOWEST)]
    if not computing or not slowest:
        return ""
    least = min(computing)
    return COMPUTING.format(computing=least, link=SLOWEST, most=slowest[0] / least)


def check_targets(rows: Sequence[Row]) -> list[TargetResult]:
    """Check how much sooner our best method on the slowest link reaches dense's final loss + 2 %."""
    found = {row.method: row.seconds for row in rows if row.link == SLOWEST and row.seconds}
    results = []
    for other, factor in TARGETS.items():
        target = f"{factor:g} × sooner than {other}, {SLOWEST}"
        best = min((found[method] for method in OURS if method in found), default=None)
        baseline = min((s for method, s in found.items() if method.startswith(other)), default=None)
        values = [(f"{best:.0f} s and {baseline:.0f} s", baseline / best)] if best and baseline else []
        results.append(check_at_least(target, factor, values, "{:.2f}×"))
    return results
