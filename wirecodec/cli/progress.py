"""Progress of long work, shown on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from wirecodec.comparison.measurement import ProgressCallback, ignore_progress


@contextmanager
def show_progress(title: str) -> Iterator[ProgressCallback]:
    """Show the completed fraction of long work if standard error is a terminal.

    Args:
        title: the name of the work.

    Yields:
        The function to call with the completed fraction. It updates a bar if rich is installed, and else a
        line with a percentage. Both are removed at the end, also after an error or an interrupt.
    """
    if not sys.stderr.isatty():
        yield ignore_progress
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        with _show_line(title) as update:
            yield update
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)


@contextmanager
def _show_line(title: str) -> Iterator[ProgressCallback]:
    """Show a percentage that overwrites itself."""
    width = len(f"{title} … 100 %")
    shown = -1

    def update(fraction: float) -> None:
        nonlocal shown
        percent = int(100 * fraction)
        if percent != shown:
            shown = percent
            sys.stderr.write(f"\r{title} … {percent:3d} %")
            sys.stderr.flush()

    update(0.0)
    try:
        yield update
    finally:
        sys.stderr.write(f"\r{' ' * width}\r")
        sys.stderr.flush()
