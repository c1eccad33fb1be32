"""Selecting on the device: ``all``, ``nonzero``, ``threshold`` and ``topk``. Others have no kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.above import threshold_bits
from wirecodec.select.every import All
from wirecodec.select.nonzero import NonZero
from wirecodec.select.threshold import Threshold
from wirecodec.select.topk import TopK

__all__ = ["DeviceSupport", "Refused", "has_kernels", "select"]

_MOST = 2**31
"""Elements from where on positions are too large for the kernels."""


class Refused(Exception):
    """A kernel met something that cannot be encoded; the CPU's code says what, and raises."""


@dataclass(frozen=True, eq=False)
class DeviceSupport:
    """What was selected: ``indices`` (r,) u32, or None for all; ``words`` (r,), the values there."""

    indices: Any
    words: Any
    flat: DeviceFlat


def has_kernels(selector: Any, size: int) -> bool:
    """Whether the selector works on the device, for so many elements."""
    return type(selector) in (All, NonZero, Threshold, TopK) and size < _MOST


def select(device: Device, flat: DeviceFlat, selector: Any) -> DeviceSupport:
    """What a selector that has kernels takes of a tensor; Refused where that has no order."""
    words, size = flat.words, flat.words.size
    k = selector.count(size) if isinstance(selector, TopK) else size
    if isinstance(selector, All) or size == 0 or (isinstance(selector, TopK) and k == size):
        if isinstance(selector, TopK) and has_nonfinite(device, words, flat.dtype):
            raise Refused
        return DeviceSupport(None, words, flat)
    if isinstance(selector, TopK):
        made = Search(device, size, words.dtype, k).cold(words, infinity_of(flat.dtype))
    else:
        above = isinstance(selector, Threshold)
        least = int(threshold_bits(selector.t, flat.dtype)) if above else 1
        mask = magnitude_of(words) if above else int(2 ** (8 * words.dtype.itemsize)) - 1
        infinity = infinity_of(flat.dtype) if above else 0
        rule = device.put(rule_of(least))
        made = Selector(device, size, words.dtype, size).select(words, rule, mask=mask, infinity=infinity)
    count, bad = made.count(device)
    if bad is not None:
        raise Refused
    if count == size:
        return DeviceSupport(None, words, flat)
    return DeviceSupport(made.indices[:count], made.values[:count], flat)


def has_nonfinite(device: Device, words: Any, dtype: np.dtype[Any]) -> bool:
    """Whether one of the words is NaN or infinite; waits for the device."""
    first = device.get(bits.nonfinite(device, words, infinity_of(dtype)))
    return bool(first[0] != bits.NOWHERE)
