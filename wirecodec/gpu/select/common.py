"""Shared parts of selectors on the device: the context of a selection, thresholds and the top k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wirecodec.gpu.arrays import has_nonfinite
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected, Selector, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.tensors import DeviceFlat


@dataclass(frozen=True, eq=False)
class Context:
    """Input of a selection other than the tensor.

    Attributes:
        seed: of the selection's draws.
        gradient: this step's gradient, in the tensor's type; None if the tensor is the gradient.
        state: returned by the tensor's last selection, or None.
        last: the last step's search for the top k, or None.
        header: bytes of the container's header that count for this tensor.
    """

    seed: int = 0
    gradient: DeviceFlat | None = None
    state: Any = None
    last: LastTop | None = None
    header: int = 0


def select_all_finite(device: Device, flat: DeviceFlat) -> DeviceSupport:
    """Select every element; raises HostFallback if one is NaN or Inf."""
    if has_nonfinite(device, flat.raw_bits, flat.dtype):
        raise HostFallback
    return DeviceSupport(None, flat.raw_bits, flat)


def to_support(device: Device, flat: DeviceFlat, selected: Selected) -> DeviceSupport:
    """Return a kernel's result as a support; raises HostFallback if it contains NaN or Inf."""
    count, nonfinite = selected.count(device)
    if nonfinite is not None:
        raise HostFallback
    if count == flat.raw_bits.size:
        return DeviceSupport(None, flat.raw_bits, flat)
    return DeviceSupport(selected.indices[:count], selected.values[:count], flat)


def select_from(device: Device, raw: Any, min_key: int, infinity: int, numbers: Any = None) -> Selected:
    """Select the elements with a key of at least ``min_key``.

    Args:
        device: where the elements are.
        raw: (n,) raw bits; a key is their magnitude.
        min_key: threshold.
        infinity: key from which on elements are reported as not finite; 0 for no report.
        numbers: (n,) u32, the elements' indices; None for 0 to n - 1.
    """
    rule = device.put(rule_of(min_key))
    selector = Selector(device, raw.size, raw.dtype, raw.size)
    return selector.select(raw, rule, mask=magnitude_of(raw), infinity=infinity, numbers=numbers)


def find_top(device: Device, raw: Any, infinity: int, k: int) -> tuple[Selected, int]:
    """Select the top k of (n,) raw bits, 0 < k <= n; return them and the smallest selected key.

    Raises HostFallback if one is NaN or Inf.
    """
    if k == raw.size:  # a search needs k < n: append a zero, which loses every tie
        padded = device.empty(k + 1, raw.dtype)
        device.clear(padded)
        device.copy(raw, padded[:k])
        raw = padded
    search = Search(device, raw.size, raw.dtype, k)
    selected = search.cold(raw, infinity)
    if selected.count(device)[1] is not None:
        raise HostFallback
    return selected, int(device.get(search.rule)[0])
