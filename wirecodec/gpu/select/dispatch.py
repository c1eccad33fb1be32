"""Selection on the device (``wirecodec.cpu.select``), by the selectors that have kernels.

all  nonzero  threshold  topk  dgc  adacomp  sidco (except gamma-gp, which needs logarithms)
budget, whose candidates are collected on the device; the result is on the host, which encodes them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wirecodec.cpu import select as cpu
from wirecodec.gpu.arrays import copy_to_host
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.adacomp import adacomp, adacomp_of_sum
from wirecodec.gpu.select.budget import select_within
from wirecodec.gpu.select.common import Context, select_all_finite, select_from, to_support
from wirecodec.gpu.select.dgc import dgc
from wirecodec.gpu.select.sidco import sidco
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.select.all import All
from wirecodec.select.budget.selector import Budget
from wirecodec.select.nonzero import NonZero
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.select.papers.dgc import DGC
from wirecodec.select.papers.sidco.selector import SIDCo
from wirecodec.select.threshold import Threshold
from wirecodec.select.threshold_common import round_threshold
from wirecodec.select.topk import TopK
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support
from wirecodec.tensors import DeviceFlat

SIZE_LIMIT = 2**31
"""The kernels select from fewer elements than this."""


def choose(
    device: Device, flat: DeviceFlat, scheme: Scheme, context: Context
) -> tuple[DeviceSupport | Support, Any]:
    """Select the elements of a tensor; return them and the selector's state for the next step.

    The result is on the host if the scheme has a transform or a budget, or its selector no kernels for this
    tensor.
    Raises EncodeError.
    """
    if scheme.transform is None and has_kernels(scheme.select, flat.raw_bits.size):
        try:
            support = select(device, flat, scheme.select, context)
            return support, support.state
        except HostFallback:
            pass
    if scheme.transform is None and isinstance(scheme.select, Budget) and 0 < flat.raw_bits.size < SIZE_LIMIT:
        try:
            return select_within(device, flat, scheme, context.header), None
        except HostFallback:
            pass
    host, gradient = copy_to_host(device, flat), None
    if context.gradient is not None:
        gradient = host.data if context.gradient is flat else copy_to_host(device, context.gradient).data
    return cpu.choose(
        host, scheme, gradient=gradient, state=context.state, seed=context.seed, header=context.header
    )


def has_kernels(selector: Any, size: int) -> bool:
    """Return whether a selector has kernels for this number of elements."""
    supported = not isinstance(selector, SIDCo) or selector.sid != "gamma-gp"
    return type(selector) in _SELECTORS and supported and size < SIZE_LIMIT


def select(device: Device, flat: DeviceFlat, selector: Any, context: Context) -> DeviceSupport:
    """Select elements by a selector that has kernels.

    Raises HostFallback for NaN or Inf that has no order.
    """
    if flat.raw_bits.size == 0:
        return DeviceSupport(None, flat.raw_bits, flat, state=context.state)
    return _SELECTORS[type(selector)](device, flat, selector, context)


def select_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: Any, context: Context
) -> DeviceSupport | None:
    """Add a residual to a tensor and select from the sum, in one pass.

    Args:
        device: where both are.
        flat: float32 or float64.
        residual: (size,), of the same type.
        selector: of the scheme.
        context: of the selection.

    Returns a support of the sum; None if the selector has no such kernel or a sum is not finite.
    """
    if type(selector) not in _SUM_SELECTORS or not 0 < flat.raw_bits.size < SIZE_LIMIT:
        return None
    return _SUM_SELECTORS[type(selector)](device, flat, residual, selector, context)


def _all(device: Device, flat: DeviceFlat, selector: All, context: Context) -> DeviceSupport:
    return DeviceSupport(None, flat.raw_bits, flat)


def _nonzero(device: Device, flat: DeviceFlat, selector: NonZero, context: Context) -> DeviceSupport:
    raw = flat.raw_bits
    all_bits = int(2 ** (8 * raw.dtype.itemsize)) - 1
    rule = device.put(rule_of(1))
    selected = Selector(device, raw.size, raw.dtype, raw.size).select(raw, rule, mask=all_bits)
    return to_support(device, flat, selected)


def _threshold(device: Device, flat: DeviceFlat, selector: Threshold, context: Context) -> DeviceSupport:
    min_key = int(round_threshold(selector.t, flat.dtype))
    return to_support(device, flat, select_from(device, flat.raw_bits, min_key, infinity_of(flat.dtype)))


def _topk(device: Device, flat: DeviceFlat, selector: TopK, context: Context) -> DeviceSupport:
    raw, k = flat.raw_bits, selector.count(flat.raw_bits.size)
    if k == raw.size:
        return select_all_finite(device, flat)
    last = context.last or LastTop()
    return to_support(device, flat, last.top(device, raw, infinity_of(flat.dtype), k))


def _topk_of_sum(
    device: Device, flat: DeviceFlat, residual: Any, selector: TopK, context: Context
) -> DeviceSupport | None:
    k = selector.count(flat.raw_bits.size)
    if context.last is None or k == flat.raw_bits.size:
        return None
    gradient = flat.raw_bits.view(flat.dtype)
    top = context.last.top_of_sum(device, gradient, residual, infinity_of(flat.dtype), k)
    if top is None:
        return None
    selected, total = top
    count, nonfinite = selected.count(device)
    if nonfinite is not None:
        return None
    return DeviceSupport(selected.indices[:count], selected.values[:count], replace(flat, raw_bits=total))


_SELECTORS: dict[type, Callable[[Device, DeviceFlat, Any, Context], DeviceSupport]] = {
    All: _all,
    NonZero: _nonzero,
    Threshold: _threshold,
    TopK: _topk,
    DGC: dgc,
    AdaComp: adacomp,
    SIDCo: sidco,
}
_SUM_SELECTORS: dict[type, Callable[[Device, DeviceFlat, Any, Any, Context], DeviceSupport | None]] = {
    TopK: _topk_of_sum,
    AdaComp: adacomp_of_sum,
}
