"""Rows of the page: a paper's result, ours, and the reason for the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Row", "format_rows"]


@dataclass(frozen=True)
class Row:
    """One table or figure of a paper.

    Attributes:
        where: its number and subject.
        theirs: the paper's result.
        ours: our result.
        difference: why they differ, or that they agree.
    """

    where: str
    theirs: str
    ours: str
    difference: str


def format_rows(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table."""
    lines = ["| in the paper | theirs | ours | difference |", "|---|---|---|---|"]
    lines += [f"| {row.where} | {row.theirs} | {row.ours} | {row.difference} |" for row in rows]
    return "\n".join(lines) + "\n"
