"""Text for the terminal: tables, names, and counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

MAX_NAME_WIDTH = 64
"""Characters of a tensor's name that a table or a message shows."""


def escape(text: str) -> str:
    """Escape the characters that are not printable, as Python does in a string literal.

    Names in a container are chosen by its author. Escaped names cannot control the terminal.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, width: int) -> str:
    """Replace the middle of a text by "…" if it has more than ``width`` characters."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def format_name(name: str) -> str:
    """Format a tensor's name for the terminal: escaped, and 64 characters at most."""
    return shorten(escape(shorten(name, MAX_NAME_WIDTH)), MAX_NAME_WIDTH)


def format_count(n: int, one: str, several: str) -> str:
    """Format a number and its noun: "1 entry", "2 entries"."""
    return f"{n} {one if n == 1 else several}"


def format_os_error(error: OSError) -> str:
    """Format an error of the operating system without its number: "x.wc: No such file or directory"."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[int] = frozenset({0}),
    most: int | None = None,
) -> list[str]:
    """Format a table as lines.

    Args:
        header: titles of the columns.
        rows: cells, as many per row as there are titles.
        left: numbers of the columns that are aligned to the left; the others are aligned to the right.
        most: longer cells do not widen the other rows of their column; None if all cells do.

    Returns:
        One line per row, after the header.
    """
    columns = zip(header, *rows, strict=True)
    widths = [max(len(cell) for cell in column if most is None or len(cell) <= most) for column in columns]
    align = [str.ljust if i in left else str.rjust for i in range(len(widths))]
    lines = (zip(align, row, widths, strict=True) for row in (header, *rows))
    return ["  ".join(place(cell, width) for place, cell, width in line).rstrip() for line in lines]
