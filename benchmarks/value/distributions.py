"""Distributions of magnitudes, and the largest of d draws without drawing d values.

The r values above the (r + 1)-th largest of d draws are independent draws of the tail. The probability of
that tail has a beta distribution. Therefore r draws have the distribution of the largest r of a vector of d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DISTRIBUTIONS", "Distribution", "select_top"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """Symmetric distribution of a gradient's elements.

    Attributes:
        name: its name in the tables.
        magnitude: inverse survival function of |x|.
    """

    name: str
    magnitude: Callable[[Doubles], Doubles]

    def draw_top(self, d: int, r: int, *, seed: int = 0) -> Floats:
        """Draw the ``r`` largest of ``d`` values, in the order of their indices; all values if r is d."""
        rng = np.random.default_rng(seed)
        tail = 1.0 if r == d else rng.beta(r + 1, d - r)
        probability = tail * (1 - rng.random(r))
        signed = self.magnitude(probability) * rng.choice([-1.0, 1.0], r)
        return np.asarray(signed, np.float32)


def _laplace(probability: Doubles) -> Doubles:
    return -np.log(probability)


def _student(probability: Doubles) -> Doubles:
    """Return the quantile of Student's t with four degrees of freedom in closed form (Shaw, 2006)."""
    root = np.sqrt(probability * (2 - probability))
    return np.asarray(2 * np.sqrt(np.maximum(np.cos(np.arccos(root) / 3) / root - 1, 0)))


def _pareto(probability: Doubles) -> Doubles:
    """Return the quantile of the generalised Pareto distribution of shape 1/3 (infinite third moment)."""
    return np.asarray(3 * (np.cbrt(1 / probability) - 1))


DISTRIBUTIONS = {
    "laplace": Distribution("laplace", _laplace),
    "student": Distribution("student", _student),
    "pareto": Distribution("pareto", _pareto),
}


def select_top(values: npt.NDArray[Any], ratio: float) -> Floats:
    """Select the ⌊ratio·d⌋ values of largest magnitude, at least one, in the order of their indices."""
    x = values.reshape(-1).astype(np.float32)
    r = max(1, int(ratio * x.size))
    chosen: Floats = x[np.sort(np.argpartition(-np.abs(x), r - 1)[:r])]
    return chosen
