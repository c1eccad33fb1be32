"""Statistics of a gradient for threshold selection (SIDCo, section 2).

They are the decay of the sorted magnitudes (Definition 1: a gradient is compressible if the exponent exceeds
1/2), the quality of the three distributions that SIDCo fits, and the counts that its stages select. The
distributions are fitted to the magnitudes that are not 0, as in the selector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, as_flat
from wirecodec.errors import EncodeError
from wirecodec.select import sidco_fits as fits
from wirecodec.select.sidco import SIDCo
from wirecodec.select.sidco_fits import Fit
from wirecodec.select.sidco_magnitudes import Magnitudes
from wirecodec.select.sidco_search import DISTRIBUTIONS
from wirecodec.select.topk import fraction_count

__all__ = [
    "DECAY_FRACTION",
    "DENSITIES",
    "STAGES",
    "FitQuality",
    "GradientStats",
    "Outcome",
    "compute_stats",
]

DENSITIES = (0.1, 0.01, 0.001)
STAGES = (1, 2, 3, 4)
DECAY_FRACTION = 0.37
"""Fraction of the magnitudes, the largest, whose decay is measured, as in the paper's figure 7."""

_MAX_DISTANCE_POINTS = 65_536
_MAX_CURVE_POINTS = 400
_MAX_DECAY_POINTS = 200
_FITS = {"exponential": fits.fit_exponential, "gamma": fits.fit_gamma, "generalised Pareto": fits.fit_pareto}


@dataclass(frozen=True, eq=False)
class FitQuality:
    """Quality of one distribution, fitted to all magnitudes that are not 0.

    Attributes:
        name: of the distribution.
        shape: its parameter; None if it has none.
        scale: its parameter, in the unit of the tensor.
        survival: probability that each magnitude of ``GradientStats.curve`` is exceeded.
        distance: Kolmogorov-Smirnov distance, the largest difference of the two distribution functions.
        errors: per density, fitted threshold / true threshold - 1; nan if no more than k are not 0.
    """

    name: str
    shape: float | None
    scale: float
    survival: Array
    distance: float
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a selection at one density.

    Attributes:
        selected: k̂/k, elements selected over elements asked for.
        fits: number of distributions fitted.
        reads: of the tensor.
        exact: whether the selection ended with an exact top-k.
    """

    selected: float
    fits: int
    reads: float
    exact: bool


@dataclass(frozen=True, eq=False)
class GradientStats:
    """Statistics of one gradient.

    Attributes:
        size: elements.
        nonzero: elements that are not 0.
        decay: the exponent p of Definition 1.
        lost: per density, fraction of the norm outside the k largest.
        quality: of the three distributions.
        staged: {sid: k̂/k per density and number of stages}, of the paper's mode.
        default: {sid: one outcome per density}, of the default mode.
        curve: (ranks, magnitudes), points of the sorted magnitudes.
    """

    size: int
    nonzero: int
    decay: float
    lost: tuple[float, ...]
    quality: tuple[FitQuality, ...]
    staged: dict[str, tuple[tuple[float, ...], ...]]
    default: dict[str, tuple[Outcome, ...]]
    curve: tuple[Array, Array]


def compute_stats(tensor: Any) -> GradientStats:
    """Compute the statistics of a gradient.

    Args:
        tensor: array of any shape and of one of the four element types.

    Raises:
        EncodeError: an element is NaN or Inf, or fewer than two are not 0.

    Example:
        >>> import numpy as np
        >>> compute_stats(np.float32([3, 0, -1, 2])).nonzero
        3
    """
    x = as_flat(tensor).data
    magnitudes = Magnitudes(x, "stats", with_logs=True)
    total = magnitudes.total
    if total.count < 2:
        raise EncodeError(f"{total.count} elements are not 0; a fit needs 2")
    # Scaled like the fits, so that squares of numbers near the end of the float range stay finite.
    ascending = np.sort(np.abs(x[x != 0].astype(np.float64)) * magnitudes.scale)
    descending = ascending[::-1]
    energy = np.cumsum(np.square(ascending))  # of the smallest magnitudes
    counts = [fraction_count(density, x.size) for density in DENSITIES]
    ranks = _choose_ranks(descending.size, _MAX_CURVE_POINTS)
    return GradientStats(
        size=int(x.size),
        nonzero=total.count,
        decay=_measure_decay(descending),
        lost=tuple(
            float(np.sqrt(energy[total.count - k - 1] / energy[-1])) if k < total.count else 0.0
            for k in counts
        ),
        quality=tuple(
            _measure_quality(name, fit(total), ascending, counts, magnitudes.scale)
            for name, fit in _FITS.items()
        ),
        staged={
            sid: tuple(_select_in_stages(x, sid, density) for density in DENSITIES) for sid in DISTRIBUTIONS
        },
        default={sid: tuple(_select(x, sid, density) for density in DENSITIES) for sid in DISTRIBUTIONS},
        curve=(ranks, descending[ranks - 1] / magnitudes.scale),
    )


def _choose_ranks(last: int, n: int) -> Array:
    """Choose about n ranks from 1 to the last, evenly spaced in their logarithms."""
    ranks: Array = np.unique(np.geomspace(1, last, n).round().astype(np.int64))
    return ranks


def _measure_quality(name: str, fit: Fit, ascending: Array, counts: Sequence[int], unit: float) -> FitQuality:
    descending = ascending[::-1]
    return FitQuality(
        name,
        getattr(fit, "shape", None),
        getattr(fit, "scale", getattr(fit, "at", 0.0)) / unit,
        fit.survival(descending[_choose_ranks(descending.size, _MAX_CURVE_POINTS) - 1]),
        _measure_distance(ascending, fit),
        _measure_threshold_errors(descending, fit, counts),
    )


def _measure_decay(descending: Array) -> float:
    """Measure the slope of the sorted magnitudes on logarithmic axes, by least squares."""
    ranks = _choose_ranks(max(2, int(DECAY_FRACTION * descending.size)), _MAX_DECAY_POINTS)
    slope = np.polyfit(np.log(ranks), np.log(descending[ranks - 1]), 1)[0]
    return float(max(-slope, 0.0))


def _measure_distance(ascending: Array, fit: Fit) -> float:
    """Measure the Kolmogorov-Smirnov distance at up to 65,536 ranks."""
    points = min(_MAX_DISTANCE_POINTS, ascending.size)
    ranks = np.unique(np.linspace(0, ascending.size - 1, points).astype(np.int64))
    model = 1 - fit.survival(ascending[ranks])
    above, below = (ranks + 1) / ascending.size - model, model - ranks / ascending.size
    return float(max(np.max(above), np.max(below)))


def _measure_threshold_errors(descending: Array, fit: Fit, counts: Sequence[int]) -> tuple[float, ...]:
    """Measure the relative error of the fitted threshold per count; nan if there is no threshold."""
    n = descending.size
    return tuple(fit.threshold(k / n) / float(descending[k - 1]) - 1 if k < n else math.nan for k in counts)


def _select_in_stages(x: Array, sid: str, density: float) -> tuple[float, ...]:
    """Select with the paper's mode, and return k̂/k per number of stages."""
    k = fraction_count(density, x.size)
    fractions = []
    for stages in STAGES:
        indices = SIDCo(density, sid, mode="faithful", stages=stages).select(x).indices
        fractions.append((x.size if indices is None else indices.size) / k)
    return tuple(fractions)


def _select(x: Array, sid: str, density: float) -> Outcome:
    """Select with the default mode."""
    search = SIDCo(density, sid).search(x)
    indices = search.selection.indices
    selected = x.size if indices is None else indices.size
    return Outcome(selected / fraction_count(density, x.size), search.stages, search.reads, search.exact)
