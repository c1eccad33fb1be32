"""PowerSGD in NumPy, a baseline (Vogels et al., 2019, algorithms 1 and 2); the arithmetic of torch's hook.

Each matrix M = gradient + error is approximated by P Qᵀ. P = M Q is averaged over the ranks and
orthogonalised, then Q = Mᵀ P is averaged. The next step starts from this Q. The error is M - P Qᵀ. Vectors,
and matrices that would not become smaller by ``min_rate``, are averaged as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["PowerSGD", "orthogonalise"]

Array = Any


def orthogonalise(p: Array) -> Array:
    """Orthogonalise the columns of (m, r) ``p`` by Gram and Schmidt; columns of zeros stay."""
    found = p.astype(np.float32).copy()
    for i in range(found.shape[1]):
        norm = np.linalg.norm(found[:, i])
        if norm > 0:
            found[:, i] /= norm
        rest = found[:, i + 1 :]
        rest -= np.outer(found[:, i], found[:, i] @ rest)
    return found


class PowerSGD:
    """PowerSGD of n ranks in one process.

    Args:
        rank: columns of P and Q.
        min_rate: the least factor by which a matrix must become smaller to be compressed, as in torch's hook.
        seed: of the first Q.
    """

    def __init__(self, rank: int, *, min_rate: float = 2, seed: int = 0) -> None:
        self._rank, self._min_rate = rank, min_rate
        self._rng = np.random.default_rng(seed)
        self._q: dict[str, Array] = {}
        self._errors: list[dict[str, Array]] = []
        self.nbytes = 0
        """Bytes of the vectors that a rank has contributed to all-reduces."""

    def allreduce(self, gradients: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Average one gradient per rank, and keep each rank's error.

        Args:
            gradients: {name: array} of every rank; the first dimension of an array is its matrix's rows.
        """
        if not self._errors:
            self._errors = [{} for _ in gradients]
        return {name: self._average(name, [each[name] for each in gradients]) for name in gradients[0]}

    def _average(self, name: str, parts: list[Array]) -> Array:
        shape = parts[0].shape
        rows, size = (shape[0], parts[0].size) if len(shape) > 1 else (1, parts[0].size)
        rank = min(self._rank, rows, size // rows)
        if rows == 1 or self._min_rate * rank * (rows + size // rows) >= size:
            self.nbytes += 4 * size
            return np.mean(parts, axis=0)
        matrices = [
            part.reshape(rows, -1) + errors.get(name, np.float32(0))
            for part, errors in zip(parts, self._errors, strict=True)
        ]
        if name not in self._q:
            start = self._rng.standard_normal((size // rows, rank)).astype(np.float32)
            self._q[name] = orthogonalise(start)
        p = orthogonalise(np.mean([m @ self._q[name] for m in matrices], axis=0))
        q = np.mean([m.T @ p for m in matrices], axis=0)
        self._q[name] = orthogonalise(q)
        self.nbytes += 4 * rank * (rows + size // rows)
        approximation = p @ q.T
        for matrix, errors in zip(matrices, self._errors, strict=True):
            errors[name] = matrix - approximation
        return approximation.reshape(shape)
