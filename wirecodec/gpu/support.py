"""What was selected on the device, and how selectors there come to it: above a threshold, or the top k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected, Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search

__all__ = ["DeviceSupport", "Refused", "has_nonfinite", "passed", "reaching", "top", "whole"]


class Refused(Exception):
    """A kernel met something that cannot be encoded; the CPU's code says what, and raises."""


@dataclass(frozen=True, eq=False)
class DeviceSupport:
    """What was selected: ``indices`` (r,) u32, or None for all; ``words`` (r,), the values there.

    ``scale`` is the one magnitude of all of them where the selector fixed it.
    """

    indices: Any
    words: Any
    flat: DeviceFlat
    scale: float | None = None


def has_nonfinite(device: Device, words: Any, dtype: np.dtype[Any]) -> bool:
    """Whether one of the words is NaN or infinite; waits for the device."""
    first = device.get(bits.nonfinite(device, words, infinity_of(dtype)))
    return bool(first[0] != bits.NOWHERE)


def whole(device: Device, flat: DeviceFlat) -> DeviceSupport:
    """Every element; Refused where one has no order."""
    if has_nonfinite(device, flat.words, flat.dtype):
        raise Refused
    return DeviceSupport(None, flat.words, flat)


def passed(device: Device, flat: DeviceFlat, made: Selected) -> DeviceSupport:
    """What passed a rule, of all elements; Refused where one of it has no order."""
    count, bad = made.count(device)
    if bad is not None:
        raise Refused
    if count == flat.words.size:
        return DeviceSupport(None, flat.words, flat)
    return DeviceSupport(made.indices[:count], made.values[:count], flat)


def reaching(device: Device, words: Any, least: int, infinity: int, numbers: Any = None) -> Selected:
    """The (n,) words whose key is ``least`` or more; ``numbers`` (n,) u32 are theirs, else 0, 1, …."""
    rule = device.put(rule_of(least))
    selector = Selector(device, words.size, words.dtype, words.size)
    return selector.select(words, rule, mask=magnitude_of(words), infinity=infinity, numbers=numbers)


def top(device: Device, words: Any, infinity: int, k: int) -> tuple[Selected, int]:
    """The top k of (n,) words, 0 < k <= n, and the least key of them; Refused where one has no order."""
    if k == words.size:  # a search leaves one out: a zero behind, the last one of its ties
        padded = device.empty(k + 1, words.dtype)
        device.clear(padded)
        device.copy(words, padded[:k])
        words = padded
    search = Search(device, words.size, words.dtype, k)
    made = search.cold(words, infinity)
    if made.count(device)[1] is not None:
        raise Refused
    return made, int(device.get(search.rule)[0])
