"""Gradient + residual of one tensor on the host, and the residual that is left after sending a part of it.

    x = m + g        m' = (1 - beta) * m + beta * (x - sent)

g is the gradient, m the residual, ``sent`` the tensor that receivers decode. With beta 1 this is x - sent:
if values are lossless, m' + sent is x, bit for bit. A beta below 1 is the low-pass filter of ScaleCom
(Algorithm 1); elements that were not sent are computed as m + beta * g, with one rounding less. A Compressor
and CLT-k share this module. ``wirecodec.gpu.residual`` computes the same bits on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array, aligned, read_only
from wirecodec.cpu import forms
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector, all_finite, require_finite
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.validation import explain_residual


@dataclass(frozen=True, eq=False)
class AccumulatedGradient:
    """Sum of one tensor's gradient and residual.

    Attributes:
        rule: computes the next residual.
        gradient: (size,) of this step, with clipping and momentum.
        residual: (size,), or None.
        x: (size,) their sum, float32 or float64; the gradient itself if that is the whole sum.
        finite: True if x is known to be finite.
        sent_dtype: type of the values that are sent, if it is not that of ``gradient``.
        taken: the selection that was made with the sum, else None; x then has +0 at its elements.
        rounded: (size,) x in the type that is sent, if that is known already.
    """

    rule: ErrorFeedback
    gradient: Array
    residual: Array | None
    x: Array
    finite: bool = False
    sent_dtype: np.dtype[Any] | None = None
    taken: Selection | None = None
    rounded: Array | None = None

    @classmethod
    def of(
        cls,
        rule: ErrorFeedback,
        gradient: Array,
        residual: Array | None,
        out: Array | None = None,
        sent_dtype: np.dtype[Any] | None = None,
    ) -> AccumulatedGradient:
        """Add a residual to a gradient.

        Args:
            rule: the feedback.
            gradient: (size,) of a carried float type.
            residual: (size,) float32 or float64, or None.
            out: memory for the sum; a new array is made without it.
            sent_dtype: type of the values that are sent; None for that of the gradient.

        A sum beyond the range of its type is clamped. Inf or NaN of the gradient stays, to be reported later.
        """
        from wirecodec.kernels.cpu.select import feedback

        if residual is not None and out is not None and sent_dtype in (None, gradient.dtype):
            rounded = forms.current().add_rounded(gradient, residual, out)
            if rounded is not None:
                return cls(rule, gradient, residual, out, True, sent_dtype, rounded=rounded)
        dtype = rule.sum_dtype(gradient.dtype, None if residual is None else residual.dtype)
        x: Array = gradient.astype(dtype, copy=False)
        if residual is None:
            return cls(rule, gradient, None, x, sent_dtype=sent_dtype)
        total = aligned(x.size, dtype) if out is None else out
        if not feedback.add(read_only(x), read_only(residual.astype(dtype, copy=False)), total):
            largest = np.finfo(dtype).max
            np.copyto(total, np.clip(total, -largest, largest), where=np.isfinite(x))
        return cls(rule, gradient, residual, total, sent_dtype=sent_dtype)

    @classmethod
    def finite_of(
        cls,
        rule: ErrorFeedback,
        gradient: Array,
        residual: Array | None,
        user: str,
        out: Array | None = None,
        selector: Any = None,
    ) -> AccumulatedGradient:
        """Add a residual to a gradient. Raises EncodeError if an element of the sum is not finite.

        Args:
            rule, gradient, residual: as for ``of``.
            user: the algorithm that needs finite elements, for the message.
            out: memory for the sum, from ``arrays.aligned``, in the type of the residual, or None.
            selector: the one whose ``top`` follows, or None; some select while they add.
        """
        if residual is not None and residual.size != gradient.size:
            raise EncodeError(explain_residual(gradient.size, residual.size))
        fast = forms.current()
        if residual is None or out is None or residual.dtype != gradient.dtype:
            fits = residual is not None and rule.sum_dtype(gradient.dtype, residual.dtype) == residual.dtype
            total = cls.of(rule, gradient, residual, out if fits else None)
        elif rule.beta == 1 and (taken := fast.select_sum(selector, gradient, residual, out)) is not None:
            return cls(rule, gradient, residual, out, finite=True, taken=taken)
        elif fast.add_streamed(gradient, residual, out):
            return cls(rule, gradient, residual, out, finite=True)
        else:
            total = cls.of(rule, gradient, residual, out)
        require_finite(total.x, user)
        return cls(rule, gradient, residual, total.x, finite=True)

    def sendable(self, indices: Array | None = None) -> Array:
        """Return x in the type that is sent, (k,) at the indices, or (size,).

        Values beyond the range of a narrower type are clamped: the excess stays in the residual.
        """
        if self.rounded is not None:
            return self.rounded if indices is None else self.rounded[indices]
        x: Array = self.x if indices is None else self.x[indices]
        dtype = self.sent_dtype or self.gradient.dtype
        if x.dtype == dtype:
            return x
        if (rounded := forms.current().round_sums(x, dtype)) is not None:
            return rounded
        largest = x.dtype.type(ml_dtypes.finfo(dtype).max)
        clamped = np.where(np.isfinite(x), np.clip(x, -largest, largest), x)
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one, which is reported later
            return clamped.astype(dtype)

    def top(self, selector: Selector) -> Array | None:
        """Return the selector's indices into x, ascending; None for all."""
        return selector.select(self.x).indices if self.taken is None else self.taken.indices

    def select(self, indices: Array | None) -> SelectedValues:
        """Select the elements at (k,) indices, or all. Uses up x if that saves a pass."""
        if self.taken is not None:
            assert self.taken.values is not None
            return SelectedValues(self, self.taken.indices, self.taken.values, self.x)
        dtype = self.sent_dtype or self.gradient.dtype
        apart = self.x.dtype == dtype and not np.may_share_memory(self.x, self.gradient)
        if indices is not None and apart and self.finite and self.rule.beta == 1:
            values = forms.current().take_streamed(self.x, indices)
            if values is None:
                values = self.x[indices]
                self.x[indices] = 0  # x - x is +0
            return SelectedValues(self, indices, values, self.x)
        return SelectedValues(self, indices, self.sendable(indices))

    def remainder(self, indices: Array | None, sent: Array) -> Array:
        """Return the next residual, (size,) in the type of x. Uses up x, unless x is the gradient itself.

        Args:
            indices: (k,) ascending elements that receivers decode, or None for all.
            sent: (k,) or (size,) values that receivers decode; not changed.

        Raises EncodeError if a NaN or Inf of the gradient is not sent: no residual can keep it.
        """
        beta = self.rule.beta
        with np.errstate(all="ignore"):
            left = self._writable_x(sent, copy=beta == 1)
            if beta == 1:
                _subtract_at(left, indices, sent.astype(left.dtype, copy=False))
            else:
                self._filter(left, left.dtype.type(beta), indices, sent.astype(left.dtype, copy=False))
        if not (self.finite and beta == 1 and _is_small(sent, left.dtype)) and not all_finite(left):
            _require_delivered(self.gradient, indices, sent)
            left[~np.isfinite(left)] = 0  # NaN and Inf were delivered; a residual would keep them for ever
        return left

    def _writable_x(self, sent: Array, *, copy: bool) -> Array:
        """Return x itself, or new memory if another array shares its memory; ``copy``: with x in it."""
        shared = np.may_share_memory(self.x, self.gradient) or np.may_share_memory(self.x, sent)
        if not shared and self.x.size:
            return self.x
        fresh = aligned(self.x.size, self.x.dtype)  # a later step's spare memory, which it takes if aligned
        if copy:
            np.copyto(fresh, self.x)
        return fresh

    def _filter(self, out: Array, beta: Any, indices: Array | None, sent: Array) -> None:
        """Compute the low-pass filter's residual; ``out`` may be x."""
        residual = self.residual
        delivered: Array = (self.x if indices is None else self.x[indices]) - sent
        delivered *= beta
        if residual is not None:
            delivered += (1 - beta) * (residual if indices is None else residual[indices])
        if indices is None:
            out[:] = delivered
            return
        np.multiply(self.gradient.astype(out.dtype, copy=False), beta, out=out)
        if residual is not None:
            out += residual
        out[indices] = delivered


@dataclass(frozen=True, eq=False)
class SelectedValues:
    """Elements of an accumulated gradient that a rank sends.

    Attributes:
        total: the accumulated gradient.
        indices: (k,) ascending, or None for all.
        values: (k,) or (size,) on the host, in the gradient's type.
        left: the next residual if it is known already, else None.
    """

    total: AccumulatedGradient
    indices: Array | None
    values: Array
    left: Array | None = None

    def remainder(self) -> Array:
        """Return the next residual (size,). Uses up the sum; ``values`` do not change."""
        if self.left is not None:
            return self.left
        return self.total.remainder(self.indices, self.values)

    def scatter(self, means: Array, out: Array | None = None) -> Array:
        """Return (size,) zeros with the (k,) means at the indices, in ``out`` if it is given."""
        if self.indices is None:
            return means
        if out is None:
            out = np.zeros(self.total.gradient.size, self.total.gradient.dtype)
        elif forms.current().scatter_streamed(out, self.indices, means):
            return out
        else:
            out.fill(0)
        out[self.indices] = means
        return out


def _is_small(sent: Array, dtype: np.dtype[Any]) -> bool:
    """Tell whether x - sent is finite for all finite x of a type."""
    limits = np.finfo(dtype)
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(sent) < limits.max * limits.eps / 4))  # the largest x rounds to itself


def _subtract_at(out: Array, indices: Array | None, sent: Array) -> None:
    """Subtract (k,) values at unique indices, or everywhere."""
    from wirecodec.kernels.cpu import support

    if indices is None:
        out -= sent
    else:
        support.add_at(out, _unsigned(indices), read_only(sent), out.dtype.type(-1))


def _require_delivered(gradient: Array, indices: Array | None, sent: Array) -> None:
    """Raise EncodeError for the first NaN or Inf of a gradient at which receivers decode a finite number."""
    with np.errstate(invalid="ignore"):  # a signalling NaN of bfloat16
        bad = np.flatnonzero(~np.isfinite(gradient))
    received = np.zeros(bad.size, sent.dtype)
    if indices is None:
        received = sent[bad]
    elif sent.size:
        slots = np.minimum(np.searchsorted(indices, bad), sent.size - 1)
        received = np.where(indices[slots] == bad, sent[slots], received)
    with np.errstate(invalid="ignore"):
        lost = bad[np.isfinite(received)]
    if lost.size:
        at = int(lost[0])
        raise EncodeError(f"{float(gradient[at])} is not sent, and no residual can keep it", position=at)


def _unsigned(indices: Array) -> Array:
    """View indices in the unsigned type that kernels take."""
    return read_only(indices.view(np.dtype(f"u{indices.itemsize}")))
