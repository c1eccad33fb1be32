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

Array = npt.NDArray[Any]


def top_k(x: Array, k: int) -> list[int]:
    """The k elements of largest magnitude, ties to the lower index, ascending."""
    order = sorted(range(x.size), key=lambda i: (-abs(float(x[i])), i))
    return sorted(order[:k])


def top_k_sorted(x: Array, k: int) -> Array:
    """The same for larger arrays, by a stable sort."""
    return np.sort(np.argsort(-np.abs(x.astype(np.float64)), kind="stable")[:k])


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
