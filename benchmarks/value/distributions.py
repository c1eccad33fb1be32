"""Laws of magnitudes, and the largest of d draws without drawing d: what a selector hands to a value codec.

Above the (r + 1)-th largest of d draws, the r larger ones are independent draws of the tail; the probability
of that tail is Beta distributed. So r values cost r draws, and are distributed as those of a vector of d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LAWS", "Law", "top_of"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A symmetrical law of a gradient's elements.

    Args:
        name: what the tables call it.
        magnitude: the |x| that is exceeded with a given probability.
    """

    name: str
    magnitude: Callable[[Doubles], Doubles]

    def top(self, d: int, r: int, *, seed: int = 0) -> Floats:
        """The ``r`` largest of ``d`` draws, in the order of their indices; all of them where r is d."""
        rng = np.random.default_rng(seed)
        tail = 1.0 if r == d else rng.beta(r + 1, d - r)
        chance = tail * (1 - rng.random(r))
        signed = self.magnitude(chance) * rng.choice([-1.0, 1.0], r)
        return np.asarray(signed, np.float32)


def _laplace(chance: Doubles) -> Doubles:
    return -np.log(chance)


def _student(chance: Doubles) -> Doubles:
    """The quantile of Student's t with four degrees of freedom, which has a closed form (Shaw, 2006)."""
    root = np.sqrt(chance * (2 - chance))
    return np.asarray(2 * np.sqrt(np.maximum(np.cos(np.arccos(root) / 3) / root - 1, 0)))


def _pareto(chance: Doubles) -> Doubles:
    """The generalised Pareto law of shape 1/3: its third moment is infinite."""
    return np.asarray(3 * (np.cbrt(1 / chance) - 1))


LAWS = {
    "laplace": Law("laplace", _laplace),
    "student": Law("student", _student),
    "pareto": Law("pareto", _pareto),
}


def top_of(values: npt.NDArray[Any], ratio: float) -> Floats:
    """The ⌊ratio·d⌋ values of greatest magnitude, and one at the least, in the order of their indices."""
    x = values.reshape(-1).astype(np.float32)
    r = max(1, int(ratio * x.size))
    chosen: Floats = x[np.sort(np.argpartition(-np.abs(x), r - 1)[:r])]
    return chosen
