"""What the benchmarks' targets share: verdicts at the worst figure, their table, sections that decide some.

A figure that is no number, as a ratio to a bound that is not known, reaches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.timing import markdown

__all__ = ["Found", "Measures", "Verdict", "at_least", "at_most", "decided", "summary"]

Measures = Iterable[tuple[str, float]]
"""(where, figure)."""


@dataclass(frozen=True)
class Verdict:
    """One row of the table of targets.

    Args:
        target: in words, with its limit.
        worst: the figure that is furthest on the wrong side, or least on the right one.
        where: it was measured, and how many miss the limit.
        reached: None where nothing was measured.
    """

    target: str
    worst: str = ""
    where: str = ""
    reached: bool | None = None


Found = tuple[list[Verdict], list[list[str]]]
"""Verdicts, and rows of (what, figure)."""


def at_most(target: str, limit: float, measures: Measures, form: str = "{:.3f}") -> Verdict:
    """Whether the greatest of the figures is ``limit`` or less.

    Args:
        target: in words.
        limit: inclusive.
        measures: where, and what.
        form: how to write a figure.
    """
    return _judged(target, measures, form, lambda figure: figure - limit)


def at_least(target: str, limit: float, measures: Measures, form: str = "{:.3f}×") -> Verdict:
    """Whether the least of the figures is ``limit`` or more.

    Args:
        target: in words.
        limit: inclusive.
        measures: where, and what.
        form: how to write a figure.
    """
    return _judged(target, measures, form, lambda figure: limit - figure)


def _judged(target: str, measures: Measures, form: str, beyond: Callable[[float], float]) -> Verdict:
    """At the figure that is furthest ``beyond`` its limit; on the right side that is 0 or less."""
    found = [(math.inf if math.isnan(x) else beyond(x), x, where) for where, x in measures]
    if not found:
        return Verdict(target)
    _, worst, where = max(found, key=lambda one: one[0])
    missed = sum(off > 0 for off, _, _ in found)
    if missed:
        where += f"; missed on {missed} of {len(found)}"
    return Verdict(target, form.format(worst), where, not missed)


def summary(verdicts: Sequence[Verdict]) -> str:
    """One row a target: what was asked, what was measured at worst and where, and whether that is enough."""
    words = {True: "**yes**", False: "NO", None: "not measured"}
    rows = [[v.target, v.worst, v.where, words[v.reached]] for v in verdicts]
    return markdown(["target", "at worst", "where", "reached"], rows)


def decided(
    title: str, parts: Mapping[str, Callable[[], Found]], step: Callable[[str], None]
) -> tuple[list[Verdict], str]:
    """Verdicts on targets that need more than the tables' figures, and a section with what they rest on.

    Args:
        title: of the section.
        parts: by name, what is measured.
        step: called with the name of what is measured next.
    """
    verdicts: list[Verdict] = []
    rows: list[list[str]] = []
    for name, part in parts.items():
        step(name)
        more, lines = part()
        verdicts += more
        rows += lines
    return verdicts, f"## {title}\n\n" + markdown(["what", "measured"], rows)
