"""Selecting on the device, by the selectors that have kernels.

all  nonzero  threshold  topk  dgc  adacomp  sidco (but gamma-gp, which asks for logarithms)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wirecodec.arrays import DeviceFlat
from wirecodec.gpu.select.adacomp import adacomp, adacomp_of_sum
from wirecodec.gpu.select.dgc import Sampled
from wirecodec.gpu.select.sidco import sidco
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.gpu.support import Context, DeviceSupport, passed, reaching, whole
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.prng import mix
from wirecodec.select.adacomp import AdaComp
from wirecodec.select.all import All
from wirecodec.select.dgc import DGC
from wirecodec.select.nonzero import NonZero
from wirecodec.select.sidco import SIDCo
from wirecodec.select.threshold import Threshold
from wirecodec.select.threshold_common import round_threshold
from wirecodec.select.topk import TopK, fraction_count

__all__ = ["has_kernels", "select", "select_sum"]

_MOST = 2**31
"""Elements from where on positions are too large for the kernels."""


def has_kernels(selector: Any, size: int) -> bool:
    """Whether the selector works on the device, for so many elements."""
    fits = not isinstance(selector, SIDCo) or selector.sid != "gamma-gp"
    return type(selector) in _SELECTORS and fits and size < _MOST


def select(device: Device, flat: DeviceFlat, selector: Any, context: Context) -> DeviceSupport:
    """What a selector that has kernels takes of a tensor; Refused where that has no order."""
    if flat.words.size == 0:
        return DeviceSupport(None, flat.words, flat, state=context.state)
    return _SELECTORS[type(selector)](device, flat, selector, context)


def select_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: Any, context: Context
) -> DeviceSupport | None:
    """The same of a tensor and its residual, chosen while the two are added; the support is one of their sum.

    Args:
        device: where.
        flat: float32 or float64.
        residual: as many numbers of its type.
        selector: that of the scheme.
        context: of the selection.

    None where they should be added first: where there is no kernel for both at once, or a sum is not finite.
    """
    if type(selector) not in _SUMMED or not 0 < flat.words.size < _MOST:
        return None
    return _SUMMED[type(selector)](device, flat, residual, selector, context)


def _all(device: Device, flat: DeviceFlat, selector: All, context: Context) -> DeviceSupport:
    return DeviceSupport(None, flat.words, flat)


def _nonzero(device: Device, flat: DeviceFlat, selector: NonZero, context: Context) -> DeviceSupport:
    words = flat.words
    every = int(2 ** (8 * words.dtype.itemsize)) - 1
    rule = device.put(rule_of(1))
    made = Selector(device, words.size, words.dtype, words.size).select(words, rule, mask=every)
    return passed(device, flat, made)


def _threshold(device: Device, flat: DeviceFlat, selector: Threshold, context: Context) -> DeviceSupport:
    least = int(round_threshold(selector.t, flat.dtype))
    return passed(device, flat, reaching(device, flat.words, least, infinity_of(flat.dtype)))


def _topk(device: Device, flat: DeviceFlat, selector: TopK, context: Context) -> DeviceSupport:
    words, k = flat.words, selector.count(flat.words.size)
    if k == words.size:
        return whole(device, flat)
    last = context.last or LastTop()
    return passed(device, flat, last.top(device, words, infinity_of(flat.dtype), k))


def _topk_of_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: TopK, context: Context
) -> DeviceSupport | None:
    k = selector.count(flat.words.size)
    if context.last is None or k == flat.words.size:
        return None
    gradient = flat.words.view(flat.dtype)
    found = context.last.top_of_sum(device, gradient, residual, infinity_of(flat.dtype), k)
    if found is None:
        return None
    made, total = found
    count, bad = made.count(device)
    if bad is not None:
        return None
    return DeviceSupport(made.indices[:count], made.values[:count], replace(flat, words=total))


def _dgc(device: Device, flat: DeviceFlat, selector: DGC, context: Context) -> DeviceSupport:
    words, infinity = flat.words, infinity_of(flat.dtype)
    if fraction_count(selector.ratio, words.size) == words.size:
        return whole(device, flat)
    made = Sampled(device, words.size, words.dtype, selector).select(words, infinity, mix(context.seed))
    return passed(device, flat, made)


_SELECTORS: dict[type, Callable[[Device, DeviceFlat, Any, Context], DeviceSupport]] = {
    All: _all,
    NonZero: _nonzero,
    Threshold: _threshold,
    TopK: _topk,
    DGC: _dgc,
    AdaComp: adacomp,
    SIDCo: sidco,
}
_SUMMED: dict[type, Callable[[Device, DeviceFlat, Any, Any, Context], DeviceSupport | None]] = {
    TopK: _topk_of_sum,
    AdaComp: adacomp_of_sum,
}
