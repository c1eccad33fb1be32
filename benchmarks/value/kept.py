"""Results of the value benchmark on disk, so that a run goes on, and the page can be written without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.results import RESULTS
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.value.measurement import Measurement
from benchmarks.value.rate_distortion import Curve

__all__ = ["FOLDER", "Curves", "load", "save"]

FOLDER = RESULTS / "value"
"""Part of the repository: the page shows a selection of its tables."""

Curves = dict[tuple[str, str], Curve]
"""The bound of each (group, column)."""


@dataclass(frozen=True)
class _BoundPoint:
    group: str
    column: str
    error: float
    bits: float


def load(folder: Path = FOLDER) -> tuple[list[Measurement], Curves]:
    """Read all measurements and bounds."""
    points: dict[tuple[str, str], list[_BoundPoint]] = {}
    for point in read_rows(folder / "bounds.csv", _BoundPoint):
        points.setdefault((point.group, point.column), []).append(point)
    curves = {
        key: Curve(tuple(one.error for one in found), tuple(one.bits for one in found))
        for key, found in points.items()
    }
    return read_rows(folder / "measurements.csv", Measurement), curves


def save(measurements: Iterable[Measurement], curves: Mapping[tuple[str, str], Curve], folder: Path) -> None:
    """Append the measurements and the bounds of some vectors."""
    append_rows(
        folder / "bounds.csv",
        [
            _BoundPoint(*key, error, bits)
            for key, curve in curves.items()
            for error, bits in zip(curve.errors, curve.bits, strict=True)
        ],
    )
    append_rows(folder / "measurements.csv", measurements)
