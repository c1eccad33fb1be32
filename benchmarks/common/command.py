"""Command-line parts that the benchmarks share: parser, progress bar, selection by name."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["PARTIAL_RUN", "choose_names", "create_parser", "create_progress"]

PARTIAL_RUN = "A partial run is only printed. A run without options is written to benchmarks/results."


def create_parser(description: str | None, package: str | None) -> argparse.ArgumentParser:
    """Create a parser whose help is a module's docstring, for ``python -m PACKAGE``."""
    return argparse.ArgumentParser(
        prog=f"python -m {package}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def create_progress(width: int = 56) -> Progress:
    """Create a progress bar with a description of fixed width, a count and the elapsed time."""
    return Progress(
        TextColumn(f"{{task.description:<{width}.{width}}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )


def choose_names(words: str, names: Iterable[str]) -> list[str]:
    """Return the names that an option gives, in its order; all names if it gives none.

    Args:
        words: names, or parts of names, separated by ";", because many names contain commas. A part selects
            all names that contain it, unless it is itself a name.
        names: all names.

    Raises:
        SystemExit: no name contains a word.
    """
    known = list(dict.fromkeys(names))
    chosen: dict[str, None] = {}
    for word in filter(None, (word.strip() for word in words.split(";"))):
        found = [word] if word in known else [name for name in known if word in name]
        if not found:
            raise SystemExit(f"nothing is called {word!r}; there are {'; '.join(known)}")
        chosen |= dict.fromkeys(found)
    return list(chosen) or known
