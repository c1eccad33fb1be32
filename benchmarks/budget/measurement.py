"""Bytes and squared error of a scheme on a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

import wirecodec as wc
from benchmarks.budget.schemes import Family
from benchmarks.value.distributions import Floats

__all__ = ["Point", "best_error", "measure_families", "measure_point", "square_error"]


@dataclass(frozen=True)
class Point:
    """One scheme on one gradient.

    Attributes:
        gradient: name of the gradient.
        family: name of the curve.
        scheme: the scheme.
        size: elements of the gradient.
        nbytes: bytes of the container.
        error: squared error relative to the sum of the squares.
        asked: bits per element of the budget, or None.
    """

    gradient: str
    family: str
    scheme: str
    size: int
    nbytes: int
    error: float
    asked: float | None = None

    @property
    def bits(self) -> float:
        """Return the bits per element."""
        return 8 * self.nbytes / self.size

    @property
    def spent(self) -> float:
        """Return the bytes in budgets."""
        return self.bits / self.asked if self.asked else float("nan")


def square_error(x: Floats, decoded: Floats) -> float:
    """Compute the squared error relative to Σx²."""
    wide = x.astype(np.float64)
    energy = float(wide @ wide)
    wide -= decoded
    return float(wide @ wide) / energy


def measure_point(gradient: str, x: Floats, family: str, scheme: str, *, asked: float | None = None) -> Point:
    """Encode and decode a gradient. Raises EncodeError if the scheme does not support it."""
    blob = wc.encode(x, scheme)
    error = square_error(x, np.asarray(wc.decode(blob).to_dense()).reshape(-1))
    return Point(gradient, family, scheme, x.size, blob.nbytes, error, asked)


def measure_families(
    gradient: str, x: Floats, families: Iterable[Family], step: Callable[[str], None]
) -> list[Point]:
    """Measure all schemes of some curves on a gradient; omit those that do not support it."""
    points = []
    for family in families:
        step(f"{gradient}: {family.name}")
        for scheme, asked in family.schemes:
            with suppress(wc.EncodeError):
                points.append(measure_point(gradient, x, family.name, scheme, asked=asked))
    return points


def best_error(points: Iterable[Point], max_bytes: float) -> float:
    """Return the least error of the points within a number of bytes; inf if no point is."""
    return min((point.error for point in points if point.nbytes <= max_bytes), default=float("inf"))
