"""A rank's share of a sum of chosen elements (CLT-k), on the GPU where the gradient lies: another door.

x = residual + gradient stays there. What leaves are the indices that a leader chooses, 4 bytes each, and the
chosen values in the gradient's type; what comes are indices and means. Bits are those of the host's shares
(``collectives.cltk.shares``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, DeviceFlat, as_device_flat, bits_of, on_gpu
from wirecodec.feedback import ErrorFeedback
from wirecodec.gpu import accumulate as sums
from wirecodec.gpu.entry import device_of
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import has_kernels, select
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.kernels.cuda import elements, feedback
from wirecodec.kernels.cuda.device import cupy_device
from wirecodec.select.topk import TopK

__all__ = ["DevicePicked", "DeviceShare", "share"]


@dataclass(frozen=True, eq=False)
class DeviceShare:
    """One tensor's residual + gradient.

    Attributes:
        rule: how what was not sent is kept.
        gradient: this step's.
        residual: (size,) of the type of x, or None.
        x: (size,) float32 or float64, finite; the gradient itself where that is all of it.
        last: where the last search for its top k ended.
    """

    rule: ErrorFeedback
    gradient: DeviceFlat
    residual: Any
    x: Any
    last: LastTop

    def top(self, selector: TopK) -> Array | None:
        """Indices of the top k on the host, (k,) u32, ascending; None for all."""
        with device_of(self.x) as device:
            words = self.x.view(f"u{self.x.dtype.itemsize}")
            flat = DeviceFlat(words, np.dtype(self.x.dtype), (words.size,))
            indices = select(device, flat, selector, Context(last=self.last)).indices
            return None if indices is None else device.get(indices)

    def picked(self, where: Array | None) -> DevicePicked:
        """What is sent of it: the elements at the host's (k,) indices, or all; waits for the device."""
        with device_of(self.x) as device:
            x, indices = self.x, None
            if where is not None:
                indices = device.put(np.ascontiguousarray(where, np.uint32))
                words = x.view(f"u{x.dtype.itemsize}")
                x = elements.gather(device, words, indices).view(x.dtype)
            sent = sums.sendable(device, x, self.gradient.dtype)
            values = device.get(sent).view(self.gradient.dtype)
            return DevicePicked(self, indices, sent, values)


@dataclass(frozen=True, eq=False)
class DevicePicked:
    """What is sent of a share.

    Attributes:
        share: of what.
        indices: (k,) u32 on the device, or None for all.
        sent: (k,) words on the device.
        values: the same on the host, in the gradient's type.
    """

    share: DeviceShare
    indices: Any
    sent: Any
    values: Array

    def remainder(self) -> Any:
        """The next residual (size,), on the device; the share's x is used up."""
        share = self.share
        x, gradient, residual = share.x, share.gradient, share.residual
        wide = np.dtype(x.dtype)
        with device_of(x) as device:
            sent = elements.convert(device, self.sent, gradient.dtype, wide)
            if share.rule.beta == 1:
                left = x
                if residual is None and gradient.dtype == wide:  # it is the caller's own
                    left = device.empty(x.size, wide)
                    device.copy(x, left)
                feedback.subtract(device, left, self.indices, sent)
                return left
            beta = wide.type(share.rule.beta)
            left = device.empty(x.size, wide)
            if self.indices is not None:
                steps = elements.convert(device, gradient.words, gradient.dtype, wide)
                feedback.lowpass(device, steps, residual, (beta, 1), left)
            feedback.lowpass(device, x, residual, (beta, 1 - beta), left, self.indices, sent)
            return left

    def dense(self, means: Array) -> Any:
        """(size,) words on the device: the (k,) means where they belong, 0 elsewhere."""
        with device_of(self.share.x) as device:
            words = device.put(np.ascontiguousarray(bits_of(means)))
            if self.indices is None:
                return words
            return elements.scatter(device, words, self.indices, self.share.x.size)


def share(rule: ErrorFeedback, gradient: Any, residual: Any, last: LastTop) -> DeviceShare | None:
    """Of a gradient that lies on a GPU, and of its residual, wherever that lies, or None.

    None where the host must look at it: something is not finite, there are too many elements, or the residual
    is of another size or four times as wide. EncodeError for other element types.
    """
    flat: DeviceFlat = as_device_flat(gradient, cupy_device().cupy)
    with device_of(flat.words) as device:
        if not has_kernels(TopK(k=1), flat.words.size):
            return None
        if residual is not None:
            if residual.size != flat.words.size or 4 * flat.dtype.itemsize <= residual.dtype.itemsize:
                return None
            residual = residual if on_gpu(residual) else device.put(residual)
        try:
            x, before = sums.added(device, rule, flat, residual)
        except HostFallback:
            return None
        return DeviceShare(rule, flat, before, x, last)
