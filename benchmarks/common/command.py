"""Command-line parts that the benchmarks share: parser, progress bar, selection by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["PARTIAL_RUN", "create_parser", "create_progress", "filter_by_name"]

T = TypeVar("T")

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


def filter_by_name(items: list[T], words: str, name: Callable[[T], str]) -> list[T]:
    """Keep the items whose name contains one of the comma-separated words; keep all if none matches."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    return [item for item in items if any(word in name(item) for word in wanted)] or items
