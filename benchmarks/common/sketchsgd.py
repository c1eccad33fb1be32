"""SketchSGD in NumPy, a baseline (Ivkin et al., 2019, algorithm 1, without momentum).

Every rank adds its gradient to its residual and sends a count sketch of the sum. The sum of the sketches is
the sketch of the sum. From it, all ranks estimate the same candidates, ``OVERSAMPLING`` times k of them, and
sum their exact values in a second all-reduce. The k largest are applied, and leave every rank's residual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import wirecodec as wc

__all__ = ["CountSketch", "SketchSGD"]

Array = Any
OVERSAMPLING = 4


class CountSketch:
    """Linear sketch (rows, columns) of vectors of d elements; each row has a hash and a sign per element.

    Args:
        d: elements of a vector.
        rows, columns: of the sketch.
        seed: of hashes and signs; the same on all ranks.
    """

    def __init__(self, d: int, rows: int, columns: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._columns = columns
        self._places = rng.integers(columns, size=(rows, d))
        self._signs = rng.integers(2, size=(rows, d)).astype(np.float32) * 2 - 1

    def encode(self, x: Array) -> Array:
        """Compute the sketch of (d,) x."""
        rows = zip(self._places, self._signs, strict=True)
        return np.array([np.bincount(at, signs * x, self._columns) for at, signs in rows])

    def estimate(self, table: Array) -> Array:
        """Estimate all elements of the vector of a sketch: the median over the rows."""
        rows = zip(table, self._places, self._signs, strict=True)
        return np.median([row[at] * signs for row, at, signs in rows], axis=0)


class SketchSGD:
    """SketchSGD of n ranks in one process.

    Args:
        rows, columns: of the sketch.
        ratio: k/d.
    """

    def __init__(self, rows: int, columns: int, ratio: float) -> None:
        self._rows, self._columns, self._ratio = rows, columns, ratio
        self._sketch: CountSketch | None = None
        self._residuals: list[Array] = []
        self.nbytes = 0
        """Bytes of the vectors that a rank has contributed to all-reduces."""

    def allreduce(self, gradients: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Average one gradient per rank, {name: array}, and keep what was not applied."""
        flat = [np.concatenate([each.ravel() for each in one.values()]) for one in gradients]
        d, n = flat[0].size, len(flat)
        k = wc.selectors.TopK(self._ratio).count(d)
        if self._sketch is None:
            self._sketch = CountSketch(d, self._rows, self._columns)
            self._residuals = [np.zeros_like(each) for each in flat]
        self._residuals = [old + new for old, new in zip(self._residuals, flat, strict=True)]
        table = sum(self._sketch.encode(residual) for residual in self._residuals)
        estimates = np.abs(self._sketch.estimate(table))
        candidates = np.argpartition(estimates, d - min(OVERSAMPLING * k, d))[-OVERSAMPLING * k :]
        exact = sum(residual[candidates] for residual in self._residuals)
        largest = np.argsort(np.abs(exact), kind="stable")[-k:]
        mean = np.zeros_like(flat[0])
        mean[candidates[largest]] = exact[largest] / n
        for residual in self._residuals:
            residual[candidates[largest]] = 0
        self.nbytes += 4 * (self._rows * self._columns + candidates.size)
        sizes = np.cumsum([each.size for each in gradients[0].values()])[:-1]
        parts = zip(gradients[0].items(), np.split(mean, sizes), strict=True)
        return {name: part.reshape(each.shape) for (name, each), part in parts}
