"""Selecting on the device, by the selectors that have kernels.

all  nonzero  threshold  topk  dgc  adacomp  sidco (but gamma-gp, which asks for logarithms)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirecodec.arrays import DeviceFlat
from wirecodec.counter import mix
from wirecodec.gpu.adacomp import adacomp
from wirecodec.gpu.sidco import sidco
from wirecodec.gpu.support import DeviceSupport, passed, reaching, top, whole
from wirecodec.kernels.cuda import elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.above import threshold_bits
from wirecodec.select.adacomp import AdaComp
from wirecodec.select.dgc import DGC
from wirecodec.select.every import All
from wirecodec.select.nonzero import NonZero
from wirecodec.select.sidco import SIDCo
from wirecodec.select.threshold import Threshold
from wirecodec.select.topk import TopK, share_of

__all__ = ["has_kernels", "select"]

_MOST = 2**31
"""Elements from where on positions are too large for the kernels."""


def has_kernels(selector: Any, size: int) -> bool:
    """Whether the selector works on the device, for so many elements."""
    fits = not isinstance(selector, SIDCo) or selector.sid != "gamma-gp"
    return type(selector) in _SELECTORS and fits and size < _MOST


def select(device: Device, flat: DeviceFlat, selector: Any, seed: int) -> DeviceSupport:
    """What a selector that has kernels takes of a tensor; Refused where that has no order."""
    if flat.words.size == 0:
        return DeviceSupport(None, flat.words, flat)
    return _SELECTORS[type(selector)](device, flat, selector, seed)


def _all(device: Device, flat: DeviceFlat, selector: All, seed: int) -> DeviceSupport:
    return DeviceSupport(None, flat.words, flat)


def _nonzero(device: Device, flat: DeviceFlat, selector: NonZero, seed: int) -> DeviceSupport:
    words = flat.words
    every = int(2 ** (8 * words.dtype.itemsize)) - 1
    rule = device.put(rule_of(1))
    made = Selector(device, words.size, words.dtype, words.size).select(words, rule, mask=every)
    return passed(device, flat, made)


def _threshold(device: Device, flat: DeviceFlat, selector: Threshold, seed: int) -> DeviceSupport:
    least = int(threshold_bits(selector.t, flat.dtype))
    return passed(device, flat, reaching(device, flat.words, least, infinity_of(flat.dtype)))


def _topk(device: Device, flat: DeviceFlat, selector: TopK, seed: int) -> DeviceSupport:
    words, k = flat.words, selector.count(flat.words.size)
    if k == words.size:
        return whole(device, flat)
    made = Search(device, words.size, words.dtype, k).cold(words, infinity_of(flat.dtype))
    return passed(device, flat, made)


def _dgc(device: Device, flat: DeviceFlat, selector: DGC, seed: int) -> DeviceSupport:
    words, infinity = flat.words, infinity_of(flat.dtype)
    k = share_of(selector.ratio, words.size)
    if k == words.size:
        return whole(device, flat)
    sample = moments.sample(device, words, share_of(selector.sample, words.size), mix(seed))
    _, least = top(device, sample, infinity, share_of(selector.ratio, sample.size))
    found = passed(device, flat, reaching(device, words, max(least, 1), infinity))
    if found.words.size <= k:
        return found
    made, _ = top(device, found.words, infinity, k)
    indices = made.indices
    if found.indices is not None:
        indices = elements.gathered(device, found.indices, indices)
    return DeviceSupport(indices, made.values, flat)


_SELECTORS: dict[type, Callable[[Device, DeviceFlat, Any, int], DeviceSupport]] = {
    All: _all,
    NonZero: _nonzero,
    Threshold: _threshold,
    TopK: _topk,
    DGC: _dgc,
    AdaComp: adacomp,
    SIDCo: sidco,
}
