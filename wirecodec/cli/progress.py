"""Progress of long work, shown on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["ProgressCallback", "ignore_progress", "show_progress"]

ProgressCallback: TypeAlias = Callable[[float], object]
"""A function that is called with the completed fraction of the work."""


def ignore_progress(fraction: float) -> None:
    """Do nothing with a completed fraction."""


@contextmanager
def show_progress(title: str) -> Iterator[ProgressCallback]:
    """Show the completed fraction of long work if standard error is a terminal.

    Args:
        title: the name of the work.

    Yields:
        The function to call with the completed fraction. It updates a bar if rich is installed.
    """
    if not sys.stderr.isatty():
        yield ignore_progress
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        print(f"{title} …", file=sys.stderr)
        yield ignore_progress
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)
