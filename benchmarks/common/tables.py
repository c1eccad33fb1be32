"""Measurements on disk: one CSV file per kind of row, whose columns are the fields of a dataclass."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

__all__ = ["append_rows", "read_rows", "write_rows"]

T = TypeVar("T")

_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: text == "True",
    float | None: lambda text: float(text) if text else None,
}


def append_rows(path: Path, rows: Iterable[Any]) -> None:
    """Append dataclasses of one type to a CSV file; a new file starts with the names of their fields.

    Numbers are written with seven significant digits, the precision of float32.

    Args:
        path: of the file, whose folder is made if it is missing.
        rows: dataclasses of str, int, float, bool, and ``float | None``.
    """
    rows = list(rows)
    if not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(field.name for field in fields(rows[0]))
        for row in rows:
            writer.writerow(f"{x:.7g}" if isinstance(x, float) else x for x in astuple(row))


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write a CSV file as ``append_rows`` does, in place of one that is there."""
    path.unlink(missing_ok=True)
    append_rows(path, rows)


def read_rows(path: Path, kind: type[T]) -> list[T]:
    """Read the rows of a CSV file as dataclasses; a missing file has none.

    Args:
        path: of the file.
        kind: the dataclass that was written.
    """
    if not path.exists():
        return []
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(**{name: _PARSERS[types[name]](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]
