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

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.errors import EncodeError
from wirecodec.select.base import all_finite
from wirecodec.sparse import SparseTensor
from wirecodec.validation import as_real, settle

__all__ = ["ErrorFeedback"]


@dataclass(frozen=True)
class ErrorFeedback:
    """How residuals are kept; ``beta`` above 0 and at most 1."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        settle(self, beta=as_real(self.beta, "feedback: beta"))
        if not 0 < self.beta <= 1:
            raise EncodeError(f"feedback: beta is {self.beta!r}; it must be above 0 and at most 1")

    def corrected(self, gradient: Array, residual: Array | None, out: Array | None = None) -> Array:
        """gradient + residual, flat, in the wider of float32 and the gradient's type.

        Args:
            gradient: flat.
            residual: as many; without one, the gradient itself is returned where its type is wide enough.
            out: where to put the sum; a new array without it.
        """
        from wirecodec.kernels.cpu.select import feedback

        wide = self.wide(gradient.dtype, None if residual is None else residual.dtype)
        x: Array = gradient.astype(wide, copy=False)
        if residual is None:
            return x
        total = np.empty(x.size, wide) if out is None else out
        if not feedback.add(read_only(x), read_only(residual.astype(wide, copy=False)), total):
            # A sum beyond the type's range is held at its end; a gradient's own Inf stays, to be refused.
            largest = np.finfo(wide).max
            np.copyto(total, np.clip(total, -largest, largest), where=np.isfinite(x))
        return total

    def wide(self, gradient: np.dtype[Any], residual: np.dtype[Any] | None) -> np.dtype[Any]:
        """The type that sums of such a gradient and such a residual are kept in."""
        wide: np.dtype[Any] = np.result_type(gradient, np.float32)
        return wide if residual is None else np.result_type(wide, residual)

    def sendable(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """``x`` in the gradient's type; what is beyond the range of a narrower type stays in the residual."""
        if x.dtype == dtype:
            return x
        largest = x.dtype.type(ml_dtypes.finfo(dtype).max)
        clipped = np.where(np.isfinite(x), np.clip(x, -largest, largest), x)
        with np.errstate(invalid="ignore"):  # a NaN that signals is quieted, which is reported
            return clipped.astype(dtype)

    def remainder(self, x: Array, gradient: Array, residual: Array | None, sent: SparseTensor) -> Array:
        """The next residual (size,), in the type of ``x``: what the receivers of ``sent`` did not get.

        Args:
            x: gradient + residual; used up, unless it is the gradient itself.
            gradient: this step's gradient, flat.
            residual: the one that went into ``x``, or None.
            sent: what receivers decode.

        Raises EncodeError if a NaN or Inf of the gradient is not among what they decode.
        """
        from wirecodec.kernels.cpu import support

        with np.errstate(all="ignore"):
            if self.beta == 1.0:
                left: Array = x.copy() if np.may_share_memory(x, gradient) or not x.size else x
                got = sent.values.astype(x.dtype, copy=False)
                if sent.is_full:
                    left -= got
                else:
                    support.add_at(left, _unsigned(sent.indices), read_only(got), x.dtype.type(-1))
            else:
                dense = np.zeros_like(x)
                dense[sent.indices] = sent.values
                before = np.zeros_like(x) if residual is None else residual
                left = before + x.dtype.type(self.beta) * (gradient.astype(x.dtype, copy=False) - dense)
        if not all_finite(left):
            _require_delivered(gradient, sent)
            left[~np.isfinite(left)] = 0  # kept here, they would never leave
        return left

    def remainder_of_rest(self, rest: Array, indices: Array, values: Array, sent: SparseTensor) -> Array:
        """``remainder`` with beta 1, bit for bit, where what was chosen has been taken out of x; in place.

        Args:
            rest: finite x, with +0 where an element was chosen.
            indices: of the chosen ones.
            values: which they were.
            sent: what receivers decode; at the same indices.
        """
        from wirecodec.kernels.cpu.select import feedback

        if not np.array_equal(bits_of(values), bits_of(sent.values)):
            feedback.store_differences(read_only(values), read_only(sent.values), _unsigned(indices), rest)
        return rest


def _require_delivered(gradient: Array, sent: SparseTensor) -> None:
    """Raise EncodeError for the first NaN or Inf of a gradient at which receivers decode a finite number."""
    with np.errstate(invalid="ignore"):  # a bfloat16 NaN that signals
        bad = np.flatnonzero(~np.isfinite(gradient))
    got = np.zeros(bad.size, sent.values.dtype)
    if sent.is_full:
        got = sent.values[bad]
    elif sent.nnz:
        slots = np.minimum(np.searchsorted(sent.indices, bad), sent.nnz - 1)
        got = np.where(sent.indices[slots] == bad, sent.values[slots], got)
    with np.errstate(invalid="ignore"):
        lost = bad[np.isfinite(got)]
    if lost.size:
        at = int(lost[0])
        raise EncodeError(f"{float(gradient[at])} is not sent, and no residual can keep it", position=at)


def _unsigned(indices: Array) -> Array:
    """Indices as kernels take them."""
    return read_only(indices.view(np.dtype(f"u{indices.itemsize}")))
