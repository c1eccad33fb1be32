"""PowerSGD of one rank (Vogels et al., 2019): bytes, time and error of its factors, for comparison.

Each matrix M is replaced by P Qᵀ of a low rank: P = M Q is averaged and orthogonalised, then Q = Mᵀ P is
averaged. The next step begins with this Q, and so does the measured one. Tensors that would not become
smaller are averaged as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

import wirecodec as wc
from collectives.local_updates.outer import Array

SUMS = 3
"""Sums over the ranks: of the tensors that stay as they are, of P, and of Q."""
_MIN_RATE = 2
"""Factor by which a matrix must become smaller; the default of torch's hook."""


def is_factored(shape: Sequence[int], rank: int) -> bool:
    """Return whether two factors of a rank replace a tensor."""
    if len(shape) < 2 or not prod(shape):
        return False
    columns = prod(shape) // shape[0]
    return _MIN_RATE * rank * (shape[0] + columns) < prod(shape)


def count_factor_bytes(shapes: Sequence[Sequence[int]], rank: int) -> int:
    """Count the bytes of all factors in float32, and of the tensors that stay as they are."""
    total = 0
    for shape in shapes:
        rows, size = (shape[0] if len(shape) else 1), prod(shape)
        total += 4 * (rank * (rows + size // rows) if is_factored(shape, rank) else size)
    return total


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a gradient.

    Attributes:
        matrices: those that are replaced.
        starts: the Q with which a step begins.
        nbytes: of all factors and of the other tensors.
        error: norm of what a step loses, over the norm of the gradient.
    """

    matrices: Sequence[Array]
    starts: Sequence[Array]
    nbytes: int
    error: float

    @classmethod
    def of(cls, tensors: Mapping[str, Array], rank: int) -> Factors:
        """Take one step to find Q, and measure the error of the next one.

        Raises:
            EncodeError: the gradient has no matrix that factors of this rank make smaller, or an element is
                not finite.
        """
        matrices = [
            x.reshape(x.shape[0], -1).astype(np.float32)
            for x in tensors.values()
            if is_factored(x.shape, rank)
        ]
        if not matrices:
            raise wc.EncodeError(f"powersgd: no tensor is a matrix that factors of rank {rank} make smaller")
        if not all(np.isfinite(x).all() for x in tensors.values()):
            raise wc.EncodeError("powersgd: an element is not finite")
        draw = np.random.default_rng(0)
        starts = [draw.standard_normal((m.shape[1], rank)).astype(np.float32) for m in matrices]
        starts = [_step(m, q)[1] for m, q in zip(matrices, starts, strict=True)]
        lost = 0.0
        for matrix, start in zip(matrices, starts, strict=True):
            p, q = _step(matrix, start)
            lost += float(np.linalg.norm(matrix - p @ q.T)) ** 2
        norm = sum(float(np.linalg.norm(x.astype(np.float32))) ** 2 for x in tensors.values())
        shapes = [x.shape for x in tensors.values()]
        return cls(matrices, starts, count_factor_bytes(shapes, rank), (lost / norm) ** 0.5 if norm else 0.0)

    def step(self) -> None:
        """Compute what a rank computes in a step: the error that is kept, both factors, and their product."""
        for matrix, start in zip(self.matrices, self.starts, strict=True):
            total = matrix + matrix
            p, q = _step(total, start)
            total -= p @ q.T


def _step(matrix: Array, start: Array) -> tuple[Array, Array]:
    p = np.linalg.qr(matrix @ start).Q
    return p, matrix.T @ p
