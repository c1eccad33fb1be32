"""Statistics of SIDCo on a gradient: the quality of its fits, and the counts that it selects.

The distributions are fitted to the magnitudes that are not 0, as in the selector (Abdelmoniem et al., 2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.gradient_stats import DENSITIES
from wirecodec.select.papers.sidco import fits
from wirecodec.select.papers.sidco.fits import Fit
from wirecodec.select.papers.sidco.magnitudes import Magnitudes
from wirecodec.select.papers.sidco.search import DISTRIBUTIONS
from wirecodec.select.papers.sidco.selector import SIDCo
from wirecodec.select.topk import fraction_count
from wirecodec.tensors import as_flat

STAGES = (1, 2, 3, 4)

_MAX_DISTANCE_POINTS = 65_536
_HISTOGRAM_BINS = 60
_HISTOGRAM_END = 0.995
"""Quantile at which the histogram of magnitudes ends."""
_FITS = {"exponential": fits.fit_exponential, "gamma": fits.fit_gamma, "generalised Pareto": fits.fit_pareto}


@dataclass(frozen=True, eq=False)
class FitQuality:
    """Quality of one distribution, fitted to all magnitudes that are not 0.

    Attributes:
        name: of the distribution.
        shape: its parameter; None if it has none.
        scale: its parameter, in the unit of the tensor.
        survival: probability that the magnitude of each of ``ranks`` is exceeded.
        density: mean probability density of each bin of ``SIDCoStats.edges``, per unit of the tensor.
        distance: Kolmogorov-Smirnov distance, the largest difference of the two distribution functions.
        errors: per density, fitted threshold / true threshold - 1; nan if no more than k are not 0.
    """

    name: str
    shape: float | None
    scale: float
    survival: Array
    density: Array
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
class SIDCoStats:
    """Fits and selections of SIDCo on one gradient.

    Attributes:
        quality: of the three distributions.
        edges: of the bins of a histogram of the magnitudes that are not 0, up to their 99.5 % quantile.
        density: fraction of these magnitudes per bin and per unit of the tensor.
        staged: {sid: k̂/k per density and number of stages}, of the paper's mode.
        default: {sid: one outcome per density}, of the default mode.
    """

    quality: tuple[FitQuality, ...]
    edges: Array
    density: Array
    staged: dict[str, tuple[tuple[float, ...], ...]]
    default: dict[str, tuple[Outcome, ...]]


def compute_sidco_stats(tensor: Any, ranks: Array) -> SIDCoStats:
    """Compute the fits and selections of SIDCo.

    Args:
        tensor: array of any shape and of one of the four element types, with two elements that are not 0.
        ranks: of the magnitudes at which fits are evaluated; those of ``GradientStats``.

    Raises:
        EncodeError: an element is NaN or Inf.

    Examples:
        >>> import numpy as np
        >>> len(compute_sidco_stats(np.float32([3, 0, -1, 2]), np.array([1, 3])).quality)
        3
    """
    x = as_flat(tensor).data
    magnitudes = Magnitudes(x, "stats", with_logs=True)
    total = magnitudes.total
    # Scaled like the fits, so that squares of numbers near the end of the float range stay finite.
    ascending = np.sort(np.abs(x[x != 0].astype(np.float64)) * magnitudes.scale)
    counts = [fraction_count(density, x.size) for density in DENSITIES]
    end = float(ascending[min(int(_HISTOGRAM_END * ascending.size), ascending.size - 1)])
    edges = np.linspace(0, end, _HISTOGRAM_BINS + 1)
    inside = np.histogram(ascending, edges)[0] / ascending.size
    width = end / _HISTOGRAM_BINS / magnitudes.scale
    return SIDCoStats(
        quality=tuple(
            _measure_quality(name, fit(total), ascending, counts, ranks, magnitudes.scale, edges)
            for name, fit in _FITS.items()
        ),
        edges=edges / magnitudes.scale,
        density=inside / width,
        staged={
            sid: tuple(_select_in_stages(x, sid, density) for density in DENSITIES) for sid in DISTRIBUTIONS
        },
        default={sid: tuple(_select(x, sid, density) for density in DENSITIES) for sid in DISTRIBUTIONS},
    )


def _measure_quality(
    name: str, fit: Fit, ascending: Array, counts: Sequence[int], ranks: Array, unit: float, edges: Array
) -> FitQuality:
    descending = ascending[::-1]
    return FitQuality(
        name,
        getattr(fit, "shape", None),
        getattr(fit, "scale", getattr(fit, "at", 0.0)) / unit,
        fit.survival(descending[ranks - 1]),
        -np.diff(fit.survival(edges)) / np.diff(edges) * unit,
        _measure_distance(ascending, fit),
        _measure_threshold_errors(descending, fit, counts),
    )


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
