"""Every step as a row of a data file, of which the page shows a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.step.rows import Row

__all__ = ["Step", "list_steps"]


@dataclass(frozen=True)
class Step:
    """Steps of one system on one link.

    Attributes:
        model, ranks, link, system: names and number.
        milliseconds, least, most: the median of the rounds, and their ends.
        cpu: milliseconds of rank 0's CPU.
        sent: kilobytes of headers and payloads; None if they are not counted.
        link_kilobytes: by the counter of the link; None without one.
        exchanges: all-gathers and transfers, one after another.
        floor: milliseconds; None if the bytes are not counted.
        ratio: time above computing alone, relative to that of the floor.
    """

    model: str
    ranks: int
    link: str
    system: str
    milliseconds: float
    least: float
    most: float
    cpu: float
    sent: float | None
    link_kilobytes: float | None
    exchanges: float | None
    floor: float | None
    ratio: float | None


def list_steps(rows: Sequence[Row]) -> list[Step]:
    """List the steps of rows."""
    return [
        Step(
            row.model,
            row.ranks,
            row.link,
            row.system,
            1e3 * row.seconds,
            1e3 * min(row.times),
            1e3 * max(row.times),
            1e3 * row.cpu,
            _scale(row.sent, 1e-3),
            _scale(row.link_bytes, 1e-3),
            row.exchanges,
            _scale(row.floor, 1e3),
            row.ratio,
        )
        for row in rows
    ]


def _scale(value: float | None, unit: float) -> float | None:
    return None if value is None else unit * value
