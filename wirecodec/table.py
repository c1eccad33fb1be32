"""Tables in plain text, for the command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["table"]


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = frozenset({0})
) -> list[str]:
    """Lines: the columns ``left`` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    placed = [str.ljust if i in left else str.rjust for i in range(len(widths))]
    lines = (zip(placed, row, widths, strict=True) for row in (header, *rows))
    return ["  ".join(place(c, w) for place, c, w in line).rstrip() for line in lines]
