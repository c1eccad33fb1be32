"""Rate-distortion bound: the fewest bits per value for independent values at a given error.

R(D) of the magnitudes is computed by the algorithm of Blahut (1972) and Arimoto. One bit is added for the
sign. This is exact while the error is well below the smallest magnitude, up to a relative error of about 0.3.

The magnitudes have a density that is constant between knots. The knots are the exact quantiles of a known
distribution, or about √r quantiles of a sample for a gradient. The bound holds for codes that know the
distribution and treat values as independent. A code that follows the layers of a gradient can be below it.

At a slope s, any distribution q of the decoded values gives a lower bound. With A_ij = exp(-s (x_i - y_j)²)
and c_j = Σ_i p_i A_ij / Σ_k q_k A_ik, it is R(D) ≥ -Σ_i p_i log2 Σ_k q_k A_ik - log2 max c - s·D·log2 e.
Iterations from q = p bring it to within 0.01 bits of equality after about a hundred steps. The grid has six
points per √D. The error of the grid counts as distortion, so that A is a short convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import convolve1d

from benchmarks.value.distributions import Distribution, Doubles, Floats

__all__ = [
    "ERRORS",
    "Curve",
    "Density",
    "compute_curve",
    "compute_rate",
    "compute_shannon_bound",
    "compute_tail_density",
    "estimate_density",
]

ERRORS = (0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.02, 0.01, 0.005)
"""Relative errors of the computed points. The curve interpolates between them; below the smallest,
halving the error costs one bit.
"""

_FINE = 6
_STEPS = 200
_PRODUCTS = 4_000_000
"""Grid points times steps; long grids use fewer steps, but at least 30."""
_SLOPES = (0.8, 0.9, 0.97)
"""Relative to the slope of the Shannon lower bound, 1/2D; R(D) is the maximum over all slopes."""


@dataclass(frozen=True, eq=False)
class Density:
    """Piecewise constant density of magnitudes.

    Attributes:
        edges: (n + 1,) ascending.
        mass: (n,) probability between consecutive edges.
    """

    edges: Doubles
    mass: Doubles

    @property
    def entropy(self) -> float:
        """Return the differential entropy in bits."""
        return float(-(self.mass * np.log2(self.mass / np.diff(self.edges))).sum())

    def discretise(self, step: float) -> Doubles:
        """Return the probability of each cell of a grid that starts at the first edge."""
        cells = math.ceil((self.edges[-1] - self.edges[0]) / step)
        grid = self.edges[0] + step * np.arange(cells + 1)
        return np.diff(np.interp(grid, self.edges, np.append(0, np.cumsum(self.mass))))


def compute_tail_density(distribution: Distribution, fraction: float, r: int) -> Density:
    """Compute the density of the largest magnitudes of a distribution.

    The range ends at the magnitude that one of ``r`` values reaches.

    Args:
        distribution: the distribution.
        fraction: fraction of the values, 1 for all.
        r: size of a sample.
    """
    above = np.concatenate([np.linspace(1, 0.01, 2000), np.geomspace(0.01, 0.25 / r, 400)[1:]])
    return Density(distribution.magnitude(fraction * above), -np.diff(above) / (1 - above[-1]))


def estimate_density(values: Floats) -> Density:
    """Estimate the density of a sample from about √r quantiles, which are denser towards the maximum."""
    ordered = np.sort(np.abs(values.astype(np.float64)))
    last, cells = ordered.size - 1, math.isqrt(ordered.size)
    at = np.concatenate([np.linspace(0, last, cells + 1), last - np.geomspace(1, max(last / cells, 1), 6)])
    at = np.unique(np.rint(at).astype(np.int64))
    edges, first = np.unique(ordered[at], return_index=True)
    return Density(edges, np.diff(at[first]) / (at[first[-1]] - at[first[0]]))


def compute_shannon_bound(density: Density, distortion: float) -> float:
    """Compute the Shannon lower bound at a mean squared error: entropy minus that of Gaussian noise."""
    return 1 + density.entropy - 0.5 * math.log2(2 * math.pi * math.e * distortion)


def compute_rate(density: Density, distortion: float) -> float:
    """Compute the bits per value, sign included, at a mean squared error."""
    step = math.sqrt(distortion) / _FINE
    mass = density.discretise(step)
    return 1 + max(
        0.0,
        *(
            _compute_rate_at_slope(mass, relative / (2 * distortion), step, distortion)
            for relative in _SLOPES
        ),
    )


def _compute_rate_at_slope(mass: Doubles, slope: float, step: float, distortion: float) -> float:
    reach = math.ceil(4.5 / (math.sqrt(2 * slope) * step))
    kernel = np.exp(-slope * (step * np.arange(-reach, reach + 1)) ** 2)

    def spread(x: Doubles) -> Doubles:
        return np.asarray(convolve1d(x, kernel, mode="constant"))

    decoded = mass + 1e-12
    for _ in range(min(_STEPS, max(30, _PRODUCTS // mass.size))):
        mixture = spread(decoded)
        ratio = spread(mass / mixture)
        decoded = decoded * ratio
    mixture = spread(decoded)
    worst = spread(mass / mixture).max()
    total = distortion + step**2 / 12
    return float(-(mass * np.log2(mixture)).sum() - math.log2(worst) - slope * total * math.log2(math.e))


@dataclass(frozen=True)
class Curve:
    """Rate-distortion bound of one vector.

    Attributes:
        errors: relative errors, descending.
        bits: bits per value at each error.
    """

    errors: tuple[float, ...]
    bits: tuple[float, ...]

    def at(self, error: float) -> float:
        """Return the bits per value at a relative error; NaN if it is 0 or above the largest error."""
        if not 0 < error <= self.errors[0]:
            return math.nan
        if error < self.errors[-1]:
            return self.bits[-1] + math.log2(self.errors[-1] / error)
        return float(np.interp(-math.log2(error), -np.log2(self.errors), self.bits))


def compute_curve(density: Density, values: Floats) -> Curve:
    """Compute the bound for values of a density, at errors relative to their root mean square.

    The curve includes the point where the bound is one bit: the error of signs with the mean magnitude.
    """
    magnitudes = np.abs(values.astype(np.float64))
    square = float(np.square(magnitudes).mean())
    bits = {error: compute_rate(density, error**2 * square) for error in ERRORS}
    signs = float(magnitudes.std()) / math.sqrt(square)
    if ERRORS[-1] < signs < ERRORS[0]:
        bits |= {signs: 1.0} | {error: 1.0 for error in ERRORS if error > signs}
    ordered = sorted(bits, reverse=True)
    return Curve(tuple(ordered), tuple(bits[error] for error in ordered))
