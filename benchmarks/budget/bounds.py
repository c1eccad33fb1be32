"""Rate-distortion bounds of Laplace and generalized Gaussian sources, from 0.02 to some bits per element.

R(D) for independent values and squared error by the algorithm of Blahut (1972) and Arimoto. By symmetry, the
computation needs only magnitudes: a decoded magnitude y > 0 stands for both signs. At a slope s, any
distribution q of the decoded values gives a lower bound on R(D); see ``benchmarks.value.rate_distortion``.

A generalized Gaussian has a density proportional to exp(-(|x|/a)^p); p = 1 is Laplace. The shape p follows
from the mean magnitude and the mean square of a gradient (Mallat, 1989). The range ends at the magnitude
that one of n values reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gamma, gammainccinv

from benchmarks.value.distributions import Doubles, Floats

__all__ = ["LAPLACE", "Bound", "compute_bound", "fit_shape"]

LAPLACE = 1.0
MIN_SHAPE, MAX_SHAPE = 0.15, 3.0
"""Range of shapes that are fitted; a gradient with many zeros is below it."""
SLOPES = 56
STEPS = 100
"""Slopes of a curve, and iterations at each."""
CELL, LAST_CELL, TAIL = 0.06, 12.0, 150
"""Width of the cells and their end, in standard deviations; cells beyond, whose widths grow."""


@dataclass(frozen=True)
class Bound:
    """Rate-distortion bound of a source of unit variance: R(D) ≥ intercept - slope · D for each pair.

    Attributes:
        shape: of the generalized Gaussian.
        slopes: bits per unit of the squared error, negated.
        intercepts: bits.
        inner: squared error within the cells of the computation.
    """

    shape: float
    slopes: tuple[float, ...]
    intercepts: tuple[float, ...]
    inner: float

    def at(self, bits: float) -> float:
        """Return the least relative squared error at some bits per element; NaN beyond the steepest slope."""
        limits = [(one - bits) / slope for slope, one in zip(self.slopes, self.intercepts, strict=True)]
        return self.inner + max(limits) if limits[-1] < max(limits) else math.nan


def fit_shape(x: Floats) -> float:
    """Fit the shape p: (E|x|)² / E[x²] = Γ(2/p)² / (Γ(1/p) Γ(3/p))."""
    wide = np.abs(x.astype(np.float64))
    wanted = float(wide.mean()) ** 2 / float(np.square(wide).mean())
    low, high = MIN_SHAPE, MAX_SHAPE
    for _ in range(40):
        p = (low + high) / 2
        if gamma(2 / p) ** 2 / (gamma(1 / p) * gamma(3 / p)) < wanted:
            low = p
        else:
            high = p
    return round((low + high) / 2, 2)


def compute_bound(shape: float, size: int) -> Bound:
    """Compute the bound of a generalized Gaussian of unit variance.

    Args:
        shape: p.
        size: number of values, which ends the range.
    """
    places, mass, inner = _discretise(shape, size)
    slopes = np.geomspace(0.01, 60, SLOPES).tolist()
    intercepts = [_compute_intercept(places, mass, slope) for slope in slopes]
    return Bound(shape, tuple(math.log2(math.e) * slope for slope in slopes), tuple(intercepts), inner)


def _discretise(shape: float, size: int) -> tuple[Doubles, Doubles, float]:
    """Return centres of cells of the magnitude, their probabilities, and the variance within them."""
    scale = math.sqrt(gamma(1 / shape) / gamma(3 / shape))
    edges = CELL * np.arange(int(LAST_CELL / CELL) + 1)
    end = scale * gammainccinv(1 / shape, 0.5 / size) ** (1 / shape)
    if end > edges[-1]:
        edges = np.concatenate([edges, np.geomspace(edges[-1], end, TAIL + 1)[1:]])
    chance = np.linspace(0, 1, 40_001)[1:-1]
    tail = np.geomspace(0.5 / size, 2.5e-5, 2000)  # the largest magnitudes, densely
    above = np.unique(np.concatenate([tail, chance]))[::-1]
    x = scale * gammainccinv(1 / shape, above) ** (1 / shape)
    weight = np.abs(np.gradient(above))
    cell = np.minimum(np.searchsorted(edges, x, side="right") - 1, edges.size - 2)
    mass = np.bincount(cell, weight, edges.size - 1)
    centre = np.bincount(cell, weight * x, edges.size - 1) / np.maximum(mass, 1e-300)
    inner = float((weight * (x - centre[cell]) ** 2).sum() / weight.sum())
    places, mass = centre[mass > 0], mass[mass > 0] / mass.sum()
    energy = float(mass @ places**2) + inner
    return places / math.sqrt(energy), mass, inner / energy


def _compute_intercept(places: Doubles, mass: Doubles, slope: float) -> float:
    """Return a lower bound on R(D) + slope · D · log2 e."""
    decoded = np.append(0.0, places)
    kernel = (
        np.exp(-slope * (places[:, None] - decoded) ** 2) + np.exp(-slope * (places[:, None] + decoded) ** 2)
    ) / 2
    q = np.append(0.5, 0.5 * mass)
    for _ in range(STEPS):
        q *= (mass / (kernel @ q)) @ kernel
    mixture = kernel @ q
    worst = float(((mass / mixture) @ kernel).max())
    return -float(mass @ np.log2(mixture)) - math.log2(worst)
