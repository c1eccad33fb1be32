"""Command-line parts that the benchmarks share: parser, progress bar, selection by name."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

__all__ = ["PARTIAL_RUN", "choose_names", "create_parser", "create_progress", "show_steps"]

PARTIAL_RUN = "A partial run is only printed. A run without options is written to benchmarks/results."


_STANDARD: dict[str, tuple[str, dict[str, Any]]] = {
    "quick": ("a small run, which is only printed", {"action": "store_true"}),
    "only": ("only these; names, or parts of names, separated by ;", {"default": "", "metavar": "NAMES"}),
    "data": ("folder of more gradients (*.npy)", {"type": Path, "metavar": "FOLDER"}),
    "minutes": ("start nothing after them", {"type": float, "default": math.inf}),
    "fresh": ("delete all results that are kept", {"action": "store_true"}),
    "report": ("measure nothing; write the page from the kept results", {"action": "store_true"}),
    "redraw": ("measure nothing; draw the page's pictures again", {"action": "store_true"}),
    "output": ("write the page and the pictures there, too", {"type": Path, "metavar": "FOLDER"}),
}
"""{option: help, and settings of argparse} of options that several benchmarks have."""


def create_parser(
    description: str | None, package: str | None, **standard: str | None
) -> argparse.ArgumentParser:
    """Create a parser whose help is a module's docstring, for ``python -m PACKAGE``.

    Args:
        description: the docstring.
        package: name of the package or module.
        standard: options of ``_STANDARD`` by name, with their help; None for the usual help.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, text in standard.items():
        usual, settings = _STANDARD[name]
        parser.add_argument(f"--{name}", help=text or usual, **settings)
    return parser


def create_progress(width: int = 56) -> Progress:
    """Create a progress bar with a description of fixed width, a count and the elapsed time."""
    return Progress(
        TextColumn(f"{{task.description:<{width}.{width}}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )


@contextmanager
def show_steps(total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show the name of each step, and how many of ``total`` have begun; yield a call for each step."""
    spinner = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*spinner) if total is None else create_progress() as progress:
        task = progress.add_task("", total=total)
        yield lambda name: progress.update(task, description=name, advance=1)


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
