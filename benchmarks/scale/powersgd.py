"""PowerSGD of one rank (Vogels et al., 2019): its arithmetic, and three sums over the ranks.

Each matrix M = gradient + error becomes P Qᵀ. P = M Q is averaged and orthogonalised, then Q = Mᵀ P is
averaged. The next step starts from this Q. The error is M - P Qᵀ. Tensors that would not become smaller are
averaged as they are. These are the sums of torch's hook: first the small tensors, then P, then Q.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from benchmarks.scale.library import multiply, orthogonalise, share
from collectives.advise.powersgd import is_factored

__all__ = ["PowerSGD"]

Array = Any


class PowerSGD:
    """PowerSGD of one rank.

    Args:
        shapes: {name: shape} of the gradients.
        rank: columns of the factors.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], rank: int) -> None:
        rng = np.random.default_rng(0)
        self._errors, self._q = {}, {}
        for name, shape in shapes.items():
            if is_factored(shape, rank):
                rows, columns = shape[0], prod(shape) // shape[0]
                self._errors[name] = share(np.zeros((rows, columns), np.float32))
                self._q[name] = share(rng.standard_normal((columns, rank)).astype(np.float32))
        self._small = [name for name in shapes if name not in self._errors]

    def step(
        self,
        gradients: Mapping[str, Array],
        average: Callable[[Array], Array],
        out: Mapping[str, Array],
    ) -> None:
        """Average gradients.

        Args:
            gradients: {name: float32 array}.
            average: returns the mean of a vector over the ranks.
            out: {name: float32 array} for the means.
        """
        if self._small:
            vector = np.concatenate([gradients[name].reshape(-1) for name in self._small])
            _split_into([out[name] for name in self._small], average(vector))
        matrices = self._errors
        for name, matrix in matrices.items():
            _add(matrix, share(gradients[name]).reshape(matrix.shape))
        left = self._average({name: m @ self._q[name] for name, m in matrices.items()}, average)
        left = {name: orthogonalise(p) for name, p in left.items()}
        self._q = self._average({name: m.T @ left[name] for name, m in matrices.items()}, average)
        for name, matrix in matrices.items():
            mean = share(out[name]).reshape(matrix.shape)
            multiply(left[name], self._q[name].T, mean)
            _subtract(matrix, mean)

    def _average(self, factors: Mapping[str, Array], average: Callable[[Array], Array]) -> dict[str, Array]:
        """Average all factors as one vector."""
        vector = np.concatenate([np.asarray(each).reshape(-1) for each in factors.values()])
        means = [np.empty(tuple(each.shape), np.float32) for each in factors.values()]
        _split_into(means, average(vector))
        return {name: share(mean) for name, mean in zip(factors, means, strict=True)}


def _add(total: Array, x: Array) -> None:
    """Add in place."""
    total += x


def _subtract(total: Array, x: Array) -> None:
    """Subtract in place."""
    total -= x


def _split_into(parts: Sequence[Array], vector: Array) -> None:
    start = 0
    for part in parts:
        part.reshape(-1)[:] = vector[start : start + part.size]
        start += part.size
