"""Error feedback: what was not sent is kept, and added to the next gradient.

Pure functions on one tensor: x = corrected(gradient, residual), and the next residual = remainder(x, …); the
residual is the caller's to hold. A beta below 1 is ScaleCom's low-pass filter (ScaleCom, Algorithm 1): the
residual m becomes m + beta · (gradient - sent). With beta 1 it becomes x - sent, so that residual + sent is
x, bit for bit where values are stored raw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.parameters import as_real, settle
from wirecodec.sparse import SparseTensor

__all__ = ["ErrorFeedback"]


@dataclass(frozen=True)
class ErrorFeedback:
    """How residuals are kept; ``beta`` above 0 and at most 1."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        settle(self, beta=as_real(self.beta, "feedback: beta"))
        if not 0 < self.beta <= 1:
            raise EncodeError(f"feedback: beta is {self.beta!r}; it must be above 0 and at most 1")

    def corrected(self, gradient: Array, residual: Array | None) -> Array:
        """gradient + residual, flat, in the wider of float32 and the gradient's type.

        The gradient itself where there is no residual yet.
        """
        wide = np.result_type(gradient.dtype, np.float32)
        x: Array = gradient.astype(wide, copy=False)
        if residual is None:
            return x
        with np.errstate(all="ignore"):
            x = x + residual
        if not np.isfinite(x).all():
            # A sum beyond the type's range is held at its end; a gradient's own Inf stays, to be refused.
            largest = np.finfo(x.dtype).max
            x = np.where(np.isfinite(gradient), np.clip(x, -largest, largest), x)
        return x

    def sendable(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """``x`` in the gradient's type; what is beyond the range of a narrower type stays in the residual."""
        if x.dtype == dtype:
            return x
        largest = x.dtype.type(ml_dtypes.finfo(dtype).max)
        clipped = np.where(np.isfinite(x), np.clip(x, -largest, largest), x)
        return clipped.astype(dtype)

    def remainder(self, x: Array, gradient: Array, residual: Array | None, sent: SparseTensor) -> Array:
        """The next residual (size,), in the type of ``x``: what the receivers of ``sent`` did not get.

        Args:
            x: gradient + residual.
            gradient: this step's gradient, flat.
            residual: the one that went into ``x``, or None.
            sent: what receivers decode.
        """
        with np.errstate(all="ignore"):
            if self.beta == 1.0:
                left: Array = x.copy()
                where = slice(None) if sent.is_full else sent.indices
                left[where] -= sent.values.astype(x.dtype, copy=False)
            else:
                dense = np.zeros_like(x)
                dense[sent.indices] = sent.values
                before = np.zeros_like(x) if residual is None else residual
                left = before + x.dtype.type(self.beta) * (gradient.astype(x.dtype, copy=False) - dense)
        finite = np.isfinite(left)
        if not finite.all():  # NaN and Inf were delivered as they are; kept here, they would never leave
            left[~finite] = 0
        return left
