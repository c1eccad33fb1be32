"""The rate-distortion bound: bits a value that no code of independent values can stay below at an error.

R(D) of the magnitudes by the algorithm of Blahut (1972) and Arimoto, and a bit for the sign, which is worth
its bit as long as the error is well below the least magnitude: up to a relative error of 0.3 or so.

The law of the magnitudes is a density that is constant between knots: the exact quantiles of a known law; or
those of the sample, about √r of them, for a gradient. That is a bound for codes that know the law and take
values to be independent; a code that follows the layers of a gradient may pass it.

At a slope s, any law q of what is decoded gives, with c_j = Σ_i p_i A_ij / Σ_k q_k A_ik and
A_ij = exp(-s (x_i - y_j)²), the inequality R(D) ≥ -Σ_i p_i log2 Σ_k q_k A_ik - log2 max c - s·D·log2 e. Steps
of the algorithm from q = p bring it close to equality: within 0.01 bit after a hundred. The grid has six
points in √D, whose own error counts as distortion, so A is a short convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import convolve1d

from benchmarks.value.distributions import Doubles, Floats, Law

__all__ = ["ERRORS", "Curve", "Density", "curve", "density_of", "rate", "shannon", "tail_density"]

ERRORS = (0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.02, 0.01, 0.005)
"""Relative errors of computed bounds; between them they are interpolated, below, a halved error is a bit."""

_FINE = 6
_STEPS = 200
_PRODUCTS = 4_000_000
"""Grid points times steps; fewer steps, of 30 at the least, where the grid is long."""
_SLOPES = (0.8, 0.9, 0.97)
"""Relative to that of the Shannon lower bound, 1/2D; R(D) is the largest over all slopes."""


@dataclass(frozen=True, eq=False)
class Density:
    """Magnitudes of probability ``mass`` (n,), evenly spread between consecutive ``edges`` (n + 1,)."""

    edges: Doubles
    mass: Doubles

    @property
    def entropy(self) -> float:
        """Differential, in bits."""
        return float(-(self.mass * np.log2(self.mass / np.diff(self.edges))).sum())

    def on(self, step: float) -> Doubles:
        """The probability of each cell of a grid from the first edge on."""
        cells = math.ceil((self.edges[-1] - self.edges[0]) / step)
        grid = self.edges[0] + step * np.arange(cells + 1)
        return np.diff(np.interp(grid, self.edges, np.append(0, np.cumsum(self.mass))))


def tail_density(law: Law, share: float, r: int) -> Density:
    """Of the share ``share`` of a law's largest magnitudes, up to what one of ``r`` values reaches.

    Args:
        law: known.
        share: 1 for all of it.
        r: how many values a sample has.
    """
    above = np.concatenate([np.linspace(1, 0.01, 2000), np.geomspace(0.01, 0.25 / r, 400)[1:]])
    return Density(law.magnitude(share * above), -np.diff(above) / (1 - above[-1]))


def density_of(values: Floats) -> Density:
    """Of a sample: about √r quantiles, closer to each other towards the largest."""
    ordered = np.sort(np.abs(values.astype(np.float64)))
    last, cells = ordered.size - 1, math.isqrt(ordered.size)
    at = np.concatenate([np.linspace(0, last, cells + 1), last - np.geomspace(1, max(last / cells, 1), 6)])
    at = np.unique(np.rint(at).astype(np.int64))
    edges, first = np.unique(ordered[at], return_index=True)
    return Density(edges, np.diff(at[first]) / (at[first[-1]] - at[first[0]]))


def shannon(density: Density, distortion: float) -> float:
    """The Shannon lower bound at a mean squared error: entropy less that of Gaussian noise."""
    return 1 + density.entropy - 0.5 * math.log2(2 * math.pi * math.e * distortion)


def rate(density: Density, distortion: float) -> float:
    """Bits a value, sign included, at a mean squared error."""
    step = math.sqrt(distortion) / _FINE
    mass = density.on(step)
    return 1 + max(
        0.0, *(_at_slope(mass, relative / (2 * distortion), step, distortion) for relative in _SLOPES)
    )


def _at_slope(mass: Doubles, slope: float, step: float, distortion: float) -> float:
    reach = math.ceil(4.5 / (math.sqrt(2 * slope) * step))
    kernel = np.exp(-slope * (step * np.arange(-reach, reach + 1)) ** 2)

    def spread(x: Doubles) -> Doubles:
        return np.asarray(convolve1d(x, kernel, mode="constant"))

    decoded = mass + 1e-12
    for _ in range(min(_STEPS, max(30, _PRODUCTS // mass.size))):
        met = spread(decoded)
        ratio = spread(mass / met)
        decoded = decoded * ratio
    met = spread(decoded)
    worst = spread(mass / met).max()
    held = distortion + step**2 / 12
    return float(-(mass * np.log2(met)).sum() - math.log2(worst) - slope * held * math.log2(math.e))


@dataclass(frozen=True)
class Curve:
    """The bound at ``errors``, which descend; ``bits`` a value of each."""

    errors: tuple[float, ...]
    bits: tuple[float, ...]

    def at(self, error: float) -> float:
        """Bits at a relative error; NaN above the largest of ``errors``, and for no error at all."""
        if not 0 < error <= self.errors[0]:
            return math.nan
        if error < self.errors[-1]:
            return self.bits[-1] + math.log2(self.errors[-1] / error)
        return float(np.interp(-math.log2(error), -np.log2(self.errors), self.bits))


def curve(density: Density, values: Floats) -> Curve:
    """The bound for values of a law, at errors relative to their own root mean square.

    One more point is where it leaves one bit: the error of signs with the mean magnitude.
    """
    magnitudes = np.abs(values.astype(np.float64))
    square = float(np.square(magnitudes).mean())
    bits = {error: rate(density, error**2 * square) for error in ERRORS}
    signs = float(magnitudes.std()) / math.sqrt(square)
    if ERRORS[-1] < signs < ERRORS[0]:
        bits |= {signs: 1.0} | {error: 1.0 for error in ERRORS if error > signs}
    ordered = sorted(bits, reverse=True)
    return Curve(tuple(ordered), tuple(bits[error] for error in ordered))
