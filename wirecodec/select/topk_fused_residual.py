"""Temporary: terms of one tensor, for ``TopK.select_terms``."""

from __future__ import annotations

from dataclasses import dataclass

from wirecodec.arrays import Array


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of one tensor, as in a row of a ``TermTable``; no momentum is (0,).

    Attributes:
        gradient: (n,) float32 or float64.
        residual: (n,) of the same type.
        momentum: (n,) of the same type.
        after: (n,) aligned to 64 bytes; it receives the next momentum.
        factors: (3,) float64: of the momentum, the gradient and the residual.
        form: PLAIN, HEAVY_BALL or NESTEROV.
    """

    gradient: Array
    residual: Array
    momentum: Array
    after: Array
    factors: Array
    form: int
