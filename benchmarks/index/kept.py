"""Results of the index benchmark on disk, so that a run goes on, and the page can be written without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.results import RESULTS
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.index.measurement import Measurement

__all__ = ["FOLDER", "load", "save"]

FOLDER = RESULTS / "index"
"""Part of the repository: the page shows a selection of its table."""


def load(folder: Path = FOLDER) -> list[Measurement]:
    """Read all measurements."""
    return read_rows(folder / "measurements.csv", Measurement)


def save(measurements: Sequence[Measurement], folder: Path = FOLDER) -> None:
    """Append the measurements of some supports."""
    append_rows(folder / "measurements.csv", measurements)
