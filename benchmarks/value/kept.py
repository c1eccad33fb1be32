"""Results of the value benchmark on disk, so that a run goes on, and the page can be written without one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common.results import RESULTS
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.common.targets import TargetResult
from benchmarks.value.measurement import Measurement
from benchmarks.value.rate_distortion import Curve

__all__ = ["FOLDER", "Curves", "Rest", "load", "load_rest", "save", "save_rest"]

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


@dataclass(frozen=True)
class Rest:
    """Parts of a run that are not in the tables.

    Attributes:
        machine: that measured.
        missing: packages of peers that were not installed.
        results: of the targets that need more than the tables.
        sections: Markdown of the other measurements, in the order of the page.
    """

    machine: str
    missing: Sequence[str]
    results: Sequence[TargetResult]
    sections: Sequence[str]


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


def load_rest(folder: Path = FOLDER) -> Rest | None:
    """Read the other parts, or return None if the run has not ended."""
    path = folder / "rest.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    results = [TargetResult(**one) for one in fields.pop("results")]
    return Rest(results=results, **fields)


def save_rest(rest: Rest, folder: Path = FOLDER) -> None:
    """Write the other parts."""
    text = json.dumps(asdict(rest), indent=1, ensure_ascii=False)
    (folder / "rest.json").write_text(text + "\n", encoding="utf-8")
