"""``adacomp`` on the device: what reaches its bin's greatest magnitude, as signs of one scale."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.choice import magnitude_in
from wirecodec.gpu.support import DeviceSupport, Refused, reaching
from wirecodec.kernels.cuda import elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.select.adacomp import AdaComp

__all__ = ["adacomp"]


def adacomp(device: Device, flat: DeviceFlat, selector: AdaComp, seed: int) -> DeviceSupport:
    """What is sent of a tensor without a residual, and with which magnitude.

    Refused where an element is not finite; EncodeError where its type does not hold the scale.
    """
    x = elements.widened(device, flat.words, flat.dtype)
    total = device.empty(x.size, x.dtype)
    width = min(selector.bin, x.size)
    keys, mean, bad = moments.bins(device, x, None, width, selector.factor - 1, total)
    made = reaching(device, keys, 1, 0)
    if device.get(bad)[0]:
        raise Refused
    count, _ = made.count(device)
    scale = float(device.get(mean)[0])
    indices = made.indices[:count]
    sent = moments.send(device, total, indices, float(magnitude_in(flat.dtype, scale)))
    words = sent.view(f"u{sent.dtype.itemsize}")
    if flat.dtype != np.float64:
        words = elements.from_single(device, words, flat.dtype)
    return DeviceSupport(None if count == x.size else indices, words, flat, scale)
