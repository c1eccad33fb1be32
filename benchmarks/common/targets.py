"""Performance targets: each is checked against its worst measurement.

A measurement that is NaN, such as a ratio to an unknown bound, misses its target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown

__all__ = [
    "LabelledValues",
    "TargetResult",
    "check_at_least",
    "check_at_most",
    "format_targets",
]

LabelledValues = Iterable[tuple[str, float]]
"""(case, measurement)."""


@dataclass(frozen=True)
class TargetResult:
    """One row of the table of targets.

    Attributes:
        target: its description, with the limit.
        worst: the measurement that misses the limit by most, or meets it by least.
        case: of that measurement, and how many of the cases miss the limit.
        met: None if nothing was measured.
    """

    target: str
    worst: str = ""
    case: str = ""
    met: bool | None = None


def check_at_most(
    target: str, limit: float, values: LabelledValues, template: str = "{:.3f}"
) -> TargetResult:
    """Check that no value exceeds a limit.

    Args:
        target: description of the target.
        limit: the largest value allowed.
        values: the measurements with their cases.
        template: format of a value.
    """
    return _check(target, values, template, lambda value: value - limit)


def check_at_least(
    target: str, limit: float, values: LabelledValues, template: str = "{:.3f}×"
) -> TargetResult:
    """Check that no value is below a limit.

    Args:
        target: description of the target.
        limit: the smallest value allowed.
        values: the measurements with their cases.
        template: format of a value.
    """
    return _check(target, values, template, lambda value: limit - value)


def _check(
    target: str, values: LabelledValues, template: str, excess: Callable[[float], float]
) -> TargetResult:
    """Check the value with the largest ``excess``; an excess of 0 or less meets the target."""
    checked = [(math.inf if math.isnan(x) else excess(x), x, case) for case, x in values]
    if not checked:
        return TargetResult(target)
    _, worst, case = max(checked, key=lambda entry: entry[0])
    missed = sum(over > 0 for over, _, _ in checked)
    if missed and len(checked) > 1:
        case += f" ({missed} of {len(checked)})"
    return TargetResult(target, template.format(worst), case, not missed)


def format_targets(results: Sequence[TargetResult]) -> str:
    """Format a table with one row per target; only misses have their case."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [
        [result.target, result.worst, words[result.met], "" if result.met else result.case]
        for result in results
    ]
    return format_markdown(["target", "worst measurement", "met", "missed at"], rows)
