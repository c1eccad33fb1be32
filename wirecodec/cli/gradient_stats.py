"""Statistics of a gradient: how its magnitudes fall, and the part of its norm that the largest elements hold.

The decay of the sorted magnitudes is that of SIDCo's Definition 1 (Abdelmoniem et al., 2021, section 2): a
gradient is compressible if the exponent exceeds 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import require_finite
from wirecodec.select.topk import fraction_count
from wirecodec.tensors import as_flat

DENSITIES = (0.1, 0.01, 0.001)
DECAY_FRACTION = 0.37
"""Fraction of the magnitudes, the largest, whose decay is measured, as in the paper's figure 7."""

_MAX_CURVE_POINTS = 400
_MAX_DECAY_POINTS = 200


@dataclass(frozen=True)
class Selected:
    """The k largest elements at one density.

    Attributes:
        density: k divided by the number of elements.
        count: k.
        threshold: the smallest of their magnitudes; 0 if fewer than k elements are not 0.
        error: norm of the other elements, divided by the norm of all.
    """

    density: float
    count: int
    threshold: float
    error: float


@dataclass(frozen=True, eq=False)
class GradientStats:
    """Statistics of one gradient.

    Attributes:
        size: elements.
        nonzero: elements that are not 0.
        decay: the exponent p of Definition 1.
        magnitude_factor: its c₁, the least with |g|_(j) ≤ c₁ · j^-p for every rank j; in the tensor's unit.
        error_factor: its c₂, the least with σ_k ≤ c₂ · k^(1/2 - p) for every k < ``nonzero``; σ_k is the norm
            of all elements but the k largest.
        selected: the largest elements per density of ``DENSITIES``.
        ranks: points of the curves below, ascending, from 1 to ``nonzero``.
        magnitudes: the magnitude of each rank.
        errors: norm of the elements after each rank, divided by the norm of all.
    """

    size: int
    nonzero: int
    decay: float
    magnitude_factor: float
    error_factor: float
    selected: tuple[Selected, ...]
    ranks: Array
    magnitudes: Array
    errors: Array


def compute_stats(tensor: Any) -> GradientStats:
    """Compute the statistics of a gradient.

    Args:
        tensor: array of any shape and of one of the four element types.

    Raises:
        EncodeError: an element is NaN or Inf, or fewer than two are not 0.

    Examples:
        >>> import numpy as np
        >>> compute_stats(np.float32([3, 0, -1, 2])).nonzero
        3
    """
    x = as_flat(tensor).data
    require_finite(x, "stats")
    magnitudes = np.abs(x[x != 0].astype(np.float64))
    n = int(magnitudes.size)
    if n < 2:
        raise EncodeError(f"{n} elements are not 0; stats needs 2 or more")
    magnitudes.sort()
    descending, largest = magnitudes[::-1], float(magnitudes[-1])
    energy = np.cumsum(
        np.square(magnitudes / largest)
    )  # of the smallest; divided, so that no square overflows
    ranks = choose_ranks(n, _MAX_CURVE_POINTS)

    def error_after(count: Any) -> Any:
        """Return the relative norm of all elements except the ``count`` largest, at most n - 1."""
        return np.sqrt(energy[n - count - 1] / energy[-1])

    def select(density: float) -> Selected:
        k = fraction_count(density, x.size)
        if k >= n:
            return Selected(density, k, float(descending[-1]) if k == n else 0.0, 0.0)
        return Selected(density, k, float(descending[k - 1]), float(error_after(k)))

    decay, every = _measure_decay(descending), np.arange(1, n + 1)
    errors = largest * np.sqrt(energy[:-1][::-1])
    return GradientStats(
        size=int(x.size),
        nonzero=n,
        decay=decay,
        magnitude_factor=float(np.max(descending * every**decay)),
        error_factor=float(np.max(errors * every[:-1] ** (decay - 0.5))),
        selected=tuple(map(select, DENSITIES)),
        ranks=ranks,
        magnitudes=descending[ranks - 1],
        errors=np.where(ranks < n, error_after(np.minimum(ranks, n - 1)), 0.0),
    )


def choose_ranks(last: int, n: int) -> Array:
    """Choose about n ranks from 1 to the last, evenly spaced in their logarithms."""
    ranks: Array = np.unique(np.geomspace(1, last, n).round().astype(np.int64))
    return ranks


def _measure_decay(descending: Array) -> float:
    """Measure the slope of the sorted magnitudes on logarithmic axes, by least squares."""
    ranks = choose_ranks(max(2, int(DECAY_FRACTION * descending.size)), _MAX_DECAY_POINTS)
    slope = np.polyfit(np.log(ranks), np.log(descending[ranks - 1]), 1)[0]
    return float(max(-slope, 0.0))
