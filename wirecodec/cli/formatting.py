"""Text for the terminal: tables, names from strangers, and numbers of things."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["counted", "printable", "shortened", "shown", "table"]

_WIDTH = 64
"""Characters of a tensor's name that a table or a line shows."""


def printable(name: str) -> str:
    """A name from a stranger, fit for a terminal: control characters as Python writes them in a string."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def shortened(text: str, width: int) -> str:
    """Cut the middle of a text: "model.enc…weight", at most ``width`` characters."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def shown(name: str) -> str:
    """Return a tensor's name for the terminal: printable, and 64 characters at most."""
    return shortened(printable(shortened(name, _WIDTH)), _WIDTH)


def counted(n: int, one: str, several: str) -> str:
    """A number, and what it counts: "1 entry", "2 entries"."""
    return f"{n} {one if n == 1 else several}"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = frozenset({0})
) -> list[str]:
    """Lines: the columns ``left`` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    placed = [str.ljust if i in left else str.rjust for i in range(len(widths))]
    lines = (zip(placed, row, widths, strict=True) for row in (header, *rows))
    return ["  ".join(place(c, w) for place, c, w in line).rstrip() for line in lines]
