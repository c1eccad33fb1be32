"""One line about skipped tests at the end of a run: each reason and how many tests have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

__all__ = ["summarize_skips"]

MAX_LENGTH = 100
"""Characters of a reason."""


def summarize_skips(reports: Sequence[pytest.TestReport | pytest.CollectReport]) -> str:
    """Return "skipped: 3 no GPU; 1 no torch", most frequent first; "" if no report was skipped."""
    counts = Counter(reason_of(report) for report in reports)
    if not counts:
        return ""
    return "skipped: " + "; ".join(f"{count} {reason}" for reason, count in counts.most_common())


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of a skip's reason, without pytest's own prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    line = text.removeprefix("Skipped: ").split("\n", 1)[0]
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 3] + "..."
