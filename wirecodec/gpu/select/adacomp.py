"""``adacomp`` on the device: elements that reach their bin's maximum, sent as signs of one scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import bits_of
from wirecodec.cpu.select import magnitude_in
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import Context, select_from
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda import elements
from wirecodec.kernels.cuda.adacomp import mark_bins
from wirecodec.kernels.cuda.device import Device
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.tensors import DeviceFlat


def adacomp(device: Device, flat: DeviceFlat, selector: AdaComp, context: Context) -> DeviceSupport:
    """Select elements of a tensor, and their magnitude.

    Raises HostFallback if an element is not finite, EncodeError if the tensor's type cannot hold the scale.
    """
    x = elements.widen(device, flat.raw_bits, flat.dtype)
    step = x
    if context.gradient is not None:
        step = elements.widen(device, context.gradient.raw_bits, flat.dtype)
    bins = mark_bins(device, step, None, *_bin_parameters(selector, x), x, summed=True)
    support = _support_of(device, flat, *bins)
    if support is None:
        raise HostFallback
    return support


def adacomp_of_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: AdaComp, context: Context
) -> DeviceSupport | None:
    """Add a residual to a tensor and select from the sum; return None if a sum is not finite."""
    gradient = flat.raw_bits.view(flat.dtype)
    total = device.empty(gradient.size, flat.dtype)
    bins = mark_bins(device, gradient, residual, *_bin_parameters(selector, gradient), total)
    return _support_of(device, replace(flat, raw_bits=total.view(flat.raw_bits.dtype)), *bins)


def set_scale(device: Device, raw: Any, dtype: np.dtype[Any], scale: float, numbers: Any = None) -> Any:
    """Replace the magnitudes of raw bits of an element type by ``scale``; the signs stay.

    ``numbers``, (n,) u32, picks elements; None for all. Raises EncodeError if the type cannot hold the scale.
    """
    magnitude = bits_of(magnitude_in(dtype, scale).reshape(1))[0]
    return elements.set_magnitude(device, raw, int(magnitude), numbers)


def _bin_parameters(selector: AdaComp, x: Any) -> tuple[int, float]:
    """Return the elements per bin of (n,) ``x``, n > 0, and the factor in H = G + factor · gradient."""
    return min(selector.bin, x.size), selector.factor - 1


def _support_of(device: Device, flat: DeviceFlat, keys: Any, mean: Any, bad: Any) -> DeviceSupport | None:
    """Return the marked elements of a tensor; None if one of its elements is not finite."""
    selected = select_from(device, keys, 1, 0)
    if device.get(bad)[0]:
        return None
    count, _ = selected.count(device)
    scale = float(device.get(mean)[0])
    indices = None if count == keys.size else selected.indices[:count]
    return DeviceSupport(indices, set_scale(device, flat.raw_bits, flat.dtype, scale, indices), flat, scale)
