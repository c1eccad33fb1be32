"""Euclidean norm of several arrays, also if squares overflow or underflow binary64.

Only squares of float64 do. So a sum of squares is tried first. If it is not reliable, all values are measured
again, divided by a power of two near the largest magnitude, which is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, add_in_order

BLOCK = 2**16
"""Elements that are converted at a time."""
_MIN_SQUARES = 2.0**-900
"""Smallest sum of squares that underflow cannot have distorted."""


@dataclass(frozen=True)
class Norm:
    """Norm as root · 2^exponent, which may be out of binary64's range; root is NaN or Inf if a value is."""

    root: float
    exponent: int = 0

    @property
    def value(self) -> float:
        """The norm, rounded to binary64; Inf beyond its range."""
        with np.errstate(all="ignore"):
            return float(np.ldexp(self.root, self.exponent))


def is_reliable(squares: float) -> bool:
    """Return whether a sum of squares is the right one, up to rounding."""
    return _MIN_SQUARES <= squares < math.inf


def measure(arrays: Sequence[Array], sum_squares: Callable[[Array], float]) -> Norm:
    """Measure the norm of flat arrays in two passes, with squares near 1.

    Args:
        arrays: (n,) each, of any carried float type.
        sum_squares: returns Σ x² of at most BLOCK numbers of binary64.
    """
    with np.errstate(all="ignore"):
        largest = float(np.max([0.0, *(np.max(np.abs(block)) for block in _blocks(arrays))]))
        if largest == 0 or not math.isfinite(largest):
            return Norm(largest)
        exponent = math.frexp(largest)[1]
        squares = (sum_squares(np.ldexp(block, -exponent)) for block in _blocks(arrays))
        return Norm(math.sqrt(add_in_order(squares)), exponent)


def _blocks(arrays: Sequence[Array]) -> Iterator[Array]:
    """Yield the values in binary64, at most BLOCK at a time."""
    for x in arrays:
        for start in range(0, x.size, BLOCK):
            yield x[start : start + BLOCK].astype(np.float64, copy=False)
