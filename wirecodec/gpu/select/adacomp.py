"""``adacomp`` on the device: what reaches its bin's greatest magnitude, as signs of one scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat, bits_of
from wirecodec.cpu.select import magnitude_in
from wirecodec.gpu.support import Context, DeviceSupport, Refused, reaching
from wirecodec.kernels.cuda import elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.select.adacomp import AdaComp

__all__ = ["adacomp", "adacomp_of_sum", "asked", "signed"]


def adacomp(device: Device, flat: DeviceFlat, selector: AdaComp, context: Context) -> DeviceSupport:
    """What is sent of a tensor, and with which magnitude.

    Refused where an element is not finite; EncodeError where its type does not hold the scale.
    """
    x = elements.widened(device, flat.words, flat.dtype)
    step = x
    if context.gradient is not None:
        step = elements.widened(device, context.gradient.words, flat.dtype)
    found = moments.bins(device, step, None, *asked(selector, x), x, summed=True)
    support = _sent(device, flat, *found)
    if support is None:
        raise Refused
    return support


def adacomp_of_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: AdaComp, context: Context
) -> DeviceSupport | None:
    """The same of a tensor and its residual, which are added meanwhile; None where a sum is not finite."""
    gradient = flat.words.view(flat.dtype)
    total = device.empty(gradient.size, flat.dtype)
    found = moments.bins(device, gradient, residual, *asked(selector, gradient), total)
    return _sent(device, replace(flat, words=total.view(flat.words.dtype)), *found)


def signed(device: Device, words: Any, dtype: np.dtype[Any], scale: float, numbers: Any = None) -> Any:
    """Words of an element type, signs kept, with the magnitude ``scale``; EncodeError where it has none.

    Of those at (n,) u32 ``numbers`` where given.
    """
    magnitude = bits_of(magnitude_in(dtype, scale).reshape(1))[0]
    return elements.with_magnitude(device, words, int(magnitude), numbers)


def asked(selector: AdaComp, x: Any) -> tuple[int, float]:
    """Elements of a bin, and how far ahead of G lies H, of (n,) ``x``, n > 0."""
    return min(selector.bin, x.size), selector.factor - 1


def _sent(device: Device, flat: DeviceFlat, keys: Any, mean: Any, bad: Any) -> DeviceSupport | None:
    """What the bins say is sent of a tensor; None where one of its elements is not finite."""
    made = reaching(device, keys, 1, 0)
    if device.get(bad)[0]:
        return None
    count, _ = made.count(device)
    scale = float(device.get(mean)[0])
    indices = None if count == keys.size else made.indices[:count]
    return DeviceSupport(indices, signed(device, flat.words, flat.dtype, scale, indices), flat, scale)
