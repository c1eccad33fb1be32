"""Gradient + residual of one tensor on a GPU: the formulas and the bits of ``wirecodec.cpu.residual``.

All elements are finite here. A tensor with NaN or Inf raises HostFallback, and the host computes its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.gpu.arrays import concatenate, has_nonfinite
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import has_kernels, select
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.kernels.cuda import elements, feedback
from wirecodec.kernels.cuda.device import Device, cupy_device, device_of
from wirecodec.select.base import Selector
from wirecodec.select.topk import TopK
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.support import DecodedChunk
from wirecodec.tensors import DeviceFlat, as_device_flat, is_torch, on_gpu


@dataclass(frozen=True, eq=False)
class AccumulatedGradient:
    """Sum of one tensor's gradient and residual.

    Attributes:
        device: the device of the arrays.
        rule: computes the next residual.
        gradient: (size,) of this step, with clipping and momentum.
        residual: (size,) in the type of x, or None.
        x: (size,) float32 or float64, finite; the gradient itself if that is the whole sum.
        last: the end of the last search for the top k, at which the next one begins.
        sent_dtype: type of the values that are sent, if it is not that of ``gradient``.
    """

    device: Device
    rule: ErrorFeedback
    gradient: DeviceFlat
    residual: Any
    x: Any
    last: LastTop | None = None
    sent_dtype: np.dtype[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values that are sent."""
        return self.sent_dtype or self.gradient.dtype

    @classmethod
    def of(
        cls,
        device: Device,
        rule: ErrorFeedback,
        gradient: DeviceFlat,
        residual: Any,
        last: LastTop | None = None,
        sent_dtype: np.dtype[Any] | None = None,
    ) -> AccumulatedGradient:
        """Add a residual, (size,) float32 or float64 or None.

        Raises HostFallback if an element is not finite.
        """
        dtype = rule.sum_dtype(gradient.dtype, None if residual is None else residual.dtype)
        wide = elements.convert(device, gradient.raw_bits, gradient.dtype, dtype)
        if residual is None:
            if has_nonfinite(device, gradient.raw_bits, gradient.dtype):
                raise HostFallback
            return cls(device, rule, gradient, None, wide, last, sent_dtype)
        before = elements.convert(device, _raw_bits(residual), residual.dtype, dtype)
        x = device.empty(wide.size, dtype)
        if device.get(feedback.add(device, wide, before, x))[0]:
            raise HostFallback
        return cls(device, rule, gradient, before, x, last, sent_dtype)

    def sendable(self, indices: Any = None) -> DeviceFlat:
        """Return x in the type that is sent, at the indices or all. Values beyond its range are clamped.

        Raises HostFallback if the type is a quarter as wide as that of x.
        """
        device, x, dtype = self.device, self.x, self.dtype
        if indices is not None:
            x = elements.gather(device, _raw_bits(x), indices).view(x.dtype)
        shape = self.gradient.shape if indices is None else (x.size,)
        if dtype == np.dtype(x.dtype):
            return DeviceFlat(_raw_bits(x), dtype, shape)
        if 2 * dtype.itemsize < x.dtype.itemsize:
            raise HostFallback
        clamped = _raw_bits(feedback.clamp(device, x, float(ml_dtypes.finfo(dtype).max)))
        if dtype.itemsize == 2:
            return DeviceFlat(elements.narrow(device, clamped, dtype)[0], dtype, shape)
        return DeviceFlat(elements.to_float32(device, clamped, np.dtype(x.dtype))[0], dtype, shape)

    def top(self, selector: Selector) -> Array | None:
        """Return the selector's indices into x, (k,) u32 on the host, ascending; None for all."""
        with device_of(self.x):
            flat = DeviceFlat(_raw_bits(self.x), np.dtype(self.x.dtype), (self.x.size,))
            indices = select(self.device, flat, selector, Context(last=self.last)).indices
            return None if indices is None else self.device.get(indices)

    def select(self, indices: Array | None) -> SelectedValues:
        """Select the elements at the host's (k,) indices, or all; waits for the device."""
        with device_of(self.x):
            on_device = None
            if indices is not None:
                on_device = self.device.put(np.ascontiguousarray(indices, np.uint32))
            sent = self.sendable(on_device)
            return SelectedValues(self, on_device, sent, self.device.get(sent.raw_bits).view(sent.dtype))

    def remainder(self, sent: Sequence[DecodedChunk]) -> Any:
        """Return the next residual, (size,) in the type of x. Uses up x, unless x is the gradient itself.

        Args:
            sent: the decoded chunks; their values are raw bits of the type that is sent.
        """
        device, dtype = self.device, np.dtype(self.x.dtype)
        if self.rule.beta < 1:
            return self._filter(sent)
        left = self.x
        if self.residual is None and self.gradient.dtype == dtype:
            left = device.empty(self.x.size, dtype)
            device.copy(self.x, left)
        for part in sent:
            values = elements.convert(device, part.values, self.dtype, dtype)
            feedback.subtract(device, left[part.base : part.base + part.d], part.indices, values)
        return left

    def _filter(self, sent: Sequence[DecodedChunk]) -> Any:
        """Compute the low-pass filter's residual."""
        device, dtype, x, residual = self.device, np.dtype(self.x.dtype), self.x, self.residual
        beta = dtype.type(self.rule.beta)
        left = device.empty(x.size, dtype)
        if any(part.indices is not None for part in sent):
            gradient = elements.convert(device, self.gradient.raw_bits, self.gradient.dtype, dtype)
            feedback.filter_residual(device, gradient, residual, (beta, 1), left)
        for part in sent:
            values = elements.convert(device, part.values, self.dtype, dtype)
            chunk = slice(part.base, part.base + part.d)
            before = None if residual is None else residual[chunk]
            weights = beta, 1 - beta
            feedback.filter_residual(device, x[chunk], before, weights, left[chunk], part.indices, values)
        return left


@dataclass(frozen=True, eq=False)
class SelectedValues:
    """Elements of an accumulated gradient that a rank sends.

    Attributes:
        total: the accumulated gradient.
        indices: (k,) u32 on the device, or None for all.
        sent: (k,) on the device, in the gradient's type.
        values: the same on the host.
    """

    total: AccumulatedGradient
    indices: Any
    sent: DeviceFlat
    values: Array

    def remainder(self) -> Any:
        """Return the next residual (size,) on the device. Uses up the sum; ``values`` do not change."""
        with device_of(self.total.x):
            return self.total.remainder(
                [DecodedChunk(0, self.total.x.size, self.indices, self.sent.raw_bits)]
            )

    def scatter(self, means: Array, out: Array | None = None) -> Any:
        """Return (size,) zeros with the (k,) means at the indices, as raw bits on the device; not ``out``."""
        device = self.total.device
        with device_of(self.total.x):
            bits = device.put(np.ascontiguousarray(bits_of(means)))
            if self.indices is None:
                return bits
            return elements.scatter(device, bits, self.indices, self.total.x.size)


def accumulate(
    rule: ErrorFeedback, gradient: Any, residual: Any, last: LastTop
) -> AccumulatedGradient | None:
    """Add a residual to a gradient on a GPU, or return None if the host has to compute this step.

    The host computes it in four cases: an element is not finite, the tensor is too large for the kernels, the
    residual has another size, or its type is four times as wide.

    Args:
        rule: the feedback.
        gradient: array on a GPU.
        residual: (size,) on the host or a GPU, or None.
        last: the end of the last search for the top k.

    Raises EncodeError for other element types.
    """
    flat: DeviceFlat = as_device_flat(gradient, cupy_device().cupy)
    with device_of(flat.raw_bits, follows_torch=is_torch(gradient)) as device:
        if not has_kernels(TopK(k=1), flat.raw_bits.size):
            return None
        if residual is not None:
            if residual.size != flat.raw_bits.size or 4 * flat.dtype.itemsize <= residual.dtype.itemsize:
                return None
            residual = residual if on_gpu(residual) else device.put(residual)
        try:
            return AccumulatedGradient.of(device, rule, flat, residual, last)
        except HostFallback:
            return None


def top_of_group(totals: Sequence[Any], selector: Selector) -> Array | None:
    """Return the selector's indices into several sums of one type, end to end, as ``top`` does."""
    with device_of(totals[0].x) as device:
        x = concatenate(device, [total.x for total in totals])
        flat = DeviceFlat(_raw_bits(x), np.dtype(x.dtype), (x.size,))
        indices = select(device, flat, selector, Context(last=totals[0].last)).indices
        return None if indices is None else device.get(indices)


def _raw_bits(x: Any) -> Any:
    """View an array as unsigned integers of the same width."""
    return x.view(f"u{x.dtype.itemsize}")
