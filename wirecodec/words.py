"""Words of the command line: names from strangers, and numbers of things."""

from __future__ import annotations

__all__ = ["counted", "printable"]


def printable(name: str) -> str:
    """A name from a stranger, fit for a terminal: control characters as Python writes them in a string."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def counted(n: int, one: str, several: str) -> str:
    """A number, and what it counts: "1 entry", "2 entries"."""
    return f"{n} {one if n == 1 else several}"
