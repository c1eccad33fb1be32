"""Error feedback on the device: the bits of ``ErrorFeedback``, of what is finite (``wirecodec.feedback``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.cpu.chunk import Part
from wirecodec.feedback import ErrorFeedback
from wirecodec.gpu.arrays import has_nonfinite
from wirecodec.gpu.fallback import HostFallback
from wirecodec.kernels.cuda import elements, feedback
from wirecodec.kernels.cuda.device import Device

__all__ = ["Sum", "added", "corrected", "remainder", "sendable", "summed"]


@dataclass(frozen=True, eq=False)
class Sum:
    """Gradient + residual.

    Attributes:
        x: (size,) float32 or float64, finite.
        seen: what of it can be sent, in the gradient's type.
        gradient: this step's.
        residual: (size,) of the type of x, or None.
    """

    x: Any
    seen: DeviceFlat
    gradient: DeviceFlat
    residual: Any


def corrected(device: Device, rule: ErrorFeedback, gradient: DeviceFlat, residual: Any) -> Sum:
    """The sum; HostFallback where something is not finite, or a type is to be narrowed to a quarter.

    ``residual`` is (size,) float32 or float64, or None.
    """
    x, before = added(device, rule, gradient, residual)
    seen = gradient
    if before is not None:
        seen = DeviceFlat(sendable(device, x, gradient.dtype), gradient.dtype, gradient.shape)
    return Sum(x, seen, gradient, before)


def added(device: Device, rule: ErrorFeedback, gradient: DeviceFlat, residual: Any) -> tuple[Any, Any]:
    """(size,) the sum, and the residual in its type; without one, the gradient itself if that is wide enough.

    HostFallback where something is not finite.
    """
    wide = rule.wide(gradient.dtype, None if residual is None else residual.dtype)
    steps = elements.convert(device, gradient.words, gradient.dtype, wide)
    if residual is None:
        if has_nonfinite(device, gradient.words, gradient.dtype):
            raise HostFallback
        return steps, None
    before = elements.convert(device, _words(residual), residual.dtype, wide)
    x = device.empty(steps.size, wide)
    if device.get(feedback.add(device, steps, before, x))[0]:
        raise HostFallback
    return x, before


def summed(gradient: DeviceFlat, residual: Any, seen: DeviceFlat) -> Sum:
    """A sum that was taken already, all of one type, finite."""
    return Sum(seen.words.view(seen.dtype), seen, gradient, residual)


def sendable(device: Device, x: Any, dtype: np.dtype[Any]) -> Any:
    """Words of what of finite ``x`` fits the element type; what is beyond its range stays behind.

    HostFallback where the type is a quarter as wide.
    """
    wide = np.dtype(x.dtype)
    if dtype == wide:
        return _words(x)
    if 2 * dtype.itemsize < wide.itemsize:
        raise HostFallback
    words = _words(feedback.clipped(device, x, float(ml_dtypes.finfo(dtype).max)))
    if dtype.itemsize == 2:
        return elements.narrow(device, words, dtype)[0]
    return elements.to_float32(device, words, wide)[0]


def remainder(device: Device, rule: ErrorFeedback, total: Sum, sent: Sequence[Part]) -> Any:
    """The next residual (size,), in the type of the sum, which is used up unless it is the gradient itself.

    ``sent``: what receivers decode, in chunks; their values are words of the gradient's type.
    """
    wide = np.dtype(total.x.dtype)
    if rule.beta < 1:
        return _filtered(device, rule.beta, total, sent)
    left = total.x
    if total.residual is None and total.gradient.dtype == wide:
        left = device.empty(total.x.size, wide)
        device.copy(total.x, left)
    for part in sent:
        values = elements.convert(device, part.values, total.gradient.dtype, wide)
        feedback.subtract(device, left[part.base : part.base + part.d], part.indices, values)
    return left


def _filtered(device: Device, beta: float, total: Sum, sent: Sequence[Part]) -> Any:
    """residual + beta · (gradient - sent)."""
    wide = np.dtype(total.x.dtype)
    steps, before = total.x, total.residual
    if before is not None:
        steps = elements.convert(device, total.gradient.words, total.gradient.dtype, wide)
    left = device.empty(steps.size, wide)
    feedback.filtered(device, steps, before, beta, left)
    for part in sent:
        values = elements.convert(device, part.values, total.gradient.dtype, wide)
        chunk = slice(part.base, part.base + part.d)
        old = None if before is None else before[chunk]
        feedback.filtered(device, steps[chunk], old, beta, left[chunk], part.indices, values)
    return left


def _words(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")
