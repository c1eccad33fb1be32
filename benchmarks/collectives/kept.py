"""Every measurement between hosts as a row of a data file, of which the page shows a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.collectives.measurement import Measurement
from benchmarks.common.results import RESULTS
from benchmarks.common.tables import read_rows

__all__ = ["FOLDER", "TABLE", "Row", "list_rows", "load"]

FOLDER = RESULTS / "collectives"
TABLE = "measurements.csv"


@dataclass(frozen=True)
class Row:
    """Time and bytes of one method.

    Attributes:
        mpi, rate, ranks, case: setup; the case has the elements and the density.
        kind: "exchange", or "whole" for a whole call.
        name: of the method.
        milliseconds: median time of the slowest rank.
        ratio: of the time to the byte limit; None if it is not compared with the limit.
        megabytes, mean: on the busiest link, and on average; None if they were not counted.
        note: the algorithm that was chosen.
    """

    mpi: str
    rate: str
    ranks: int
    case: str
    kind: str
    name: str
    milliseconds: float
    ratio: float | None
    megabytes: float | None
    mean: float | None
    note: str


def list_rows(measurements: Sequence[Measurement]) -> list[Row]:
    """List the rows of measurements."""
    return [
        Row(
            m.mpi,
            m.rate,
            m.ranks,
            m.case.name,
            m.kind,
            m.name,
            1e3 * m.seconds,
            m.ratio if m.nbytes else None,
            m.link / 1e6 if m.nbytes else None,
            m.links / 1e6 if m.nbytes else None,
            m.note,
        )
        for m in measurements
    ]


def load(folder: Path = FOLDER) -> list[Row]:
    """Read all rows."""
    return read_rows(folder / TABLE, Row)
