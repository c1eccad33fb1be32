"""What is exchanged: gradients that are cheap to make, alike on ranks to a given extent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Case"]

Vector = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        elements: d.
        density: share of the elements that a rank sends.
        alike: share of those that all ranks choose alike.
    """

    elements: int
    density: float
    alike: float = 0.0

    @property
    def kept(self) -> int:
        """Elements a rank sends."""
        return max(1, round(self.elements * self.density))

    @property
    def words(self) -> str:
        """As the tables name it."""
        alike = f", {100 * self.alike:g} % alike" if self.alike else ""
        return f"{self.elements / 1e6:g}M, {100 * self.density:g} %{alike}"

    def support(self, rank: int) -> npt.NDArray[np.uint32]:
        """This rank's indices, ascending: the common ones and its own."""
        common = _drawn(self.elements, round(self.kept * self.alike), 1)
        own = _drawn(self.elements, self.kept - common.size, 100 + rank)
        return np.union1d(common, own).astype(np.uint32)

    def gradient(self, rank: int) -> npt.NDArray[np.float32]:
        """Small values everywhere, large ones at the support: top-k chooses just these."""
        rng = np.random.default_rng(1000 + rank)
        x = rng.random(self.elements, np.float32)
        where = self.support(rank)
        x[where] = 2 + rng.random(where.size, np.float32)
        return x


def _drawn(d: int, k: int, seed: int) -> npt.NDArray[np.int64]:
    """About k different numbers below d."""
    if k == 0:
        return np.empty(0, np.int64)
    rng = np.random.default_rng(seed)
    if 4 * k < d:
        return np.unique(rng.integers(0, d, k))
    return np.sort(rng.choice(d, k, replace=False, shuffle=False))
