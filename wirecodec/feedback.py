"""Error feedback: what was not sent is kept, and added to the next gradient.

Two pure functions on one tensor, x = corrected(gradient, residual) and remainder(x, sent, …); the residual is
the caller's to hold. β < 1 is ScaleCom's low-pass filter (ScaleCom, Algorithm 1): m' = m + β (g - sent); at β
= 1, m' = x - sent, so m' + sent is x bit for bit wherever values are stored raw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.sparse import SparseTensor

__all__ = ["ErrorFeedback"]


@dataclass(frozen=True)
class ErrorFeedback:
    """How residuals are kept; ``beta`` above 0 and at most 1."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.beta <= 1:
            raise EncodeError(f"feedback: beta is {self.beta!r}; it must be above 0 and at most 1")

    def corrected(self, gradient: Array, residual: Array | None) -> Array:
        """gradient + residual, flat, in the wider of float32 and the gradient's type; the gradient's own
        where there is no residual yet.
        """
        wide = np.result_type(gradient.dtype, np.float32)
        x = gradient.astype(wide, copy=False)
        total: Array = x if residual is None else x + residual
        return total

    def remainder(self, x: Array, gradient: Array, residual: Array | None, sent: SparseTensor) -> Array:
        """The next residual (size,), in the type of ``x``: what of ``x`` = gradient + residual the receivers
        of ``sent`` did not get.
        """
        if self.beta == 1.0:
            left: Array = x.copy()
            if sent.is_full:
                left -= sent.values.astype(x.dtype, copy=False)
            else:
                left[sent.indices] -= sent.values.astype(x.dtype, copy=False)
            return left
        dense = np.zeros_like(x)
        dense[sent.indices] = sent.values
        before = np.zeros_like(x) if residual is None else residual
        kept: Array = before + x.dtype.type(self.beta) * (gradient.astype(x.dtype, copy=False) - dense)
        return kept
