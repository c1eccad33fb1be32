"""Brute-force definitions: short, slow, and written from the papers and the specification, never from the
library.

A test that holds the library against one of these says what is right; a round trip only says that two halves
agree.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from formats.reference.floats import BY_NAME, FLOAT64, convert, float_of

Array = npt.NDArray[Any]


def top_k(x: Array, k: int) -> list[int]:
    """The k elements of largest magnitude, ties to the lower index, ascending."""
    order = sorted(range(x.size), key=lambda i: (-abs(float(x[i])), i))
    return sorted(order[:k])


def kept(ratio: str, size: int) -> int:
    """⌊ratio · size⌋ in exact decimal, at least one of a tensor that has elements."""
    return max(1, int(Decimal(ratio) * size)) if size else 0


def entropy_bits(d: int, r: int) -> float:
    """log2 C(d, r): the bits that no coder of uniform supports can stay below."""
    return (math.lgamma(d + 1) - math.lgamma(r + 1) - math.lgamma(d - r + 1)) / math.log(2)


def best_rice_parameter(gaps: list[int]) -> int:
    """The least b in 0 … 24 of least size."""
    return min(range(25), key=lambda b: (len(gaps) * b + sum(g >> b for g in gaps), b))


def rank_ordered_sum(vectors: list[Array]) -> Array:
    """Σ in order from +0, one rounding an addition."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total


def lane_sum(numbers: list[float], lanes: int) -> float:
    """Partial sums by index modulo ``lanes``, then folded in halves."""
    sums = [0.0] * lanes
    for i, number in enumerate(numbers):
        sums[i % lanes] += number
    while lanes > 1:
        lanes //= 2
        sums = [sums[j] + sums[j + lanes] for j in range(lanes)]
    return sums[0]


def rounded(number: float, dtype: Any) -> float:
    """A binary64 number in an element type, rounded once, to nearest, ties to even."""
    target = BY_NAME[np.dtype(dtype).name]
    return float_of(convert(int(np.float64(number).view(np.uint64)), FLOAT64, target), target)

