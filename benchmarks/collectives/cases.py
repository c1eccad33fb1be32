"""Cases of the exchanges: gradients that are cheap to build, with a given overlap between ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Case"]

Vector = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Gradients of all ranks in one measurement.

    Attributes:
        elements: d.
        density: fraction of the elements that a rank sends.
        shared: fraction of those that all ranks select.
    """

    elements: int
    density: float
    shared: float = 0.0

    @property
    def count(self) -> int:
        """Return the number of elements that a rank sends."""
        return max(1, round(self.elements * self.density))

    @property
    def name(self) -> str:
        """Return the name used in the tables."""
        shared = f", {100 * self.shared:g} % shared" if self.shared else ""
        return f"{self.elements / 1e6:g}M, {100 * self.density:g} %{shared}"

    def support(self, rank: int) -> npt.NDArray[np.uint32]:
        """Return a rank's ascending indices: the shared ones and its own."""
        common = _draw_indices(self.elements, round(self.count * self.shared), 1)
        own = _draw_indices(self.elements, self.count - common.size, 100 + rank)
        return np.union1d(common, own).astype(np.uint32)

    def gradient(self, rank: int) -> npt.NDArray[np.float32]:
        """Build a gradient whose largest elements are the support, so that top-k selects exactly these."""
        rng = np.random.default_rng(1000 + rank)
        x = rng.random(self.elements, np.float32)
        support = self.support(rank)
        x[support] = 2 + rng.random(support.size, np.float32)
        return x


def _draw_indices(d: int, k: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw about k distinct numbers below d."""
    if k == 0:
        return np.empty(0, np.int64)
    rng = np.random.default_rng(seed)
    if 4 * k < d:
        return np.unique(rng.integers(0, d, k))
    return np.sort(rng.choice(d, k, replace=False, shuffle=False))
