"""SIDCo's three distributions, fitted to magnitudes by their moments (SIDCo, 2.3, 2.4 and B.3).

A fit is a frozen distribution of y > 0, and ``threshold(p)`` what y exceeds with probability p: SciPy's
inverse survival function at the fitted parameters. Where the paper approximates the gamma distribution's
inverse (equation 15), it is exact here: at a shape of 0.2 the closed form keeps everything at p = 0.25.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array

__all__ = [
    "Exponential",
    "Fit",
    "Gamma",
    "Moments",
    "Pareto",
    "Point",
    "fit_exponential",
    "fit_gamma",
    "fit_pareto",
]


@dataclass(frozen=True)
class Moments:
    """Of ``count`` magnitudes: their mean and variance, and the mean of their logarithms where asked for."""

    count: int
    mean: float
    variance: float
    log_mean: float = math.nan


class Fit(Protocol):
    """A distribution of y > 0."""

    def threshold(self, p: float) -> float:
        """What y exceeds with probability ``p`` > 0; 0 where p is 1 or more."""
        ...

    def survival(self, y: Array) -> Array:
        """The probability that each y is exceeded."""
        ...


@dataclass(frozen=True)
class Exponential:
    """exp(-y/scale) survives y."""

    scale: float

    def threshold(self, p: float) -> float:
        """Corollary 1.1."""
        return self.scale * abs(math.log(min(p, 1.0)))

    def survival(self, y: Array) -> Array:
        """The probability that each y is exceeded."""
        found: Array = np.exp(-y / self.scale)
        return found


@dataclass(frozen=True)
class Pareto:
    """The generalised Pareto distribution; ``shape`` is SciPy's c, and 0 makes it exponential."""

    shape: float
    scale: float

    def threshold(self, p: float) -> float:
        """Corollary 1.3."""
        log = abs(math.log(min(p, 1.0)))
        bent = self.shape * log
        # β·expm1(α·L)/α without the quotient of two zeros
        return self.scale * log * (math.expm1(bent) / bent if abs(bent) > 1e-12 else 1.0)

    def survival(self, y: Array) -> Array:
        """The probability that each y is exceeded; 0 beyond the end that a negative shape gives."""
        if self.shape == 0:
            return Exponential(self.scale).survival(y)
        with np.errstate(divide="ignore"):
            logs = np.log1p(np.maximum(self.shape / self.scale * y, -1.0))
        found: Array = np.exp(-logs / self.shape)
        return found


@dataclass(frozen=True)
class Gamma:
    """The gamma distribution; a shape below 1 has more of its mass near 0 than the exponential."""

    shape: float
    scale: float

    def threshold(self, p: float) -> float:
        """Corollary 1.2, exactly."""
        special = _special()
        return self.scale * float(special.gammainccinv(self.shape, min(p, 1.0)))

    def survival(self, y: Array) -> Array:
        """The probability that each y is exceeded."""
        found: Array = _special().gammaincc(self.shape, y / self.scale)
        return found


@dataclass(frozen=True)
class Point:
    """All mass at one value: what a fit becomes where nothing varies."""

    at: float

    def threshold(self, p: float) -> float:
        """That value, or 0 where p is 1 or more."""
        return self.at if p < 1 else 0.0

    def survival(self, y: Array) -> Array:
        """The probability that each y is exceeded."""
        return np.where(y < self.at, 1.0, 0.0)


def fit_exponential(moments: Moments) -> Fit:
    """By maximum likelihood: the scale is the mean."""
    return Exponential(moments.mean)


def fit_pareto(moments: Moments) -> Fit:
    """By mean and variance (equations 8 and 9); the shape is held within ±½, where they exist."""
    mean, variance = moments.mean, moments.variance
    if not variance > 0:
        return Point(mean)
    shape = min(max(0.5 * (1 - mean * mean / variance), -0.5), 0.5)
    return Pareto(shape, mean * (1 - shape))


def fit_gamma(moments: Moments) -> Fit:
    """By maximum likelihood, from mean and mean logarithm.

    Equation 27 is Minka's first guess at the shape, to be followed by steps of Newton's method. It is a
    percent off, and keeps up to 5 % too few at p = 0.001; after one step, that is less than 0.1 %.
    """
    s = math.log(moments.mean) - moments.log_mean
    if not s > 1e-9:  # a shape above 10^8: all but a point
        return Point(moments.mean)
    special = _special()
    shape = (3 - s + math.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    excess = math.log(shape) - float(special.digamma(shape)) - s
    shape -= excess / (1 / shape - float(special.polygamma(1, shape)))
    return Gamma(shape, moments.mean / shape)


def _special() -> Any:
    """SciPy's special functions, imported on first use."""
    from scipy import special

    return special
