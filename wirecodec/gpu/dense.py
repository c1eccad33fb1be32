"""Dense vectors on the device, as sums over ranks need them: zeros, means, how many are not 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, magnitude_of, rule_of

__all__ = ["count_nonzero", "mean", "zeros"]


def zeros(device: Device, size: int, dtype: np.dtype[Any]) -> Any:
    """(size,) +0, float32 or float64."""
    made = device.empty(size, dtype)
    device.clear(made)
    return made


def mean(device: Device, total: Any, ranks: int, dtype: np.dtype[Any]) -> Any:
    """Words of (n,) ``total`` / ranks in the element type ``dtype``.

    ``total`` is overwritten. Divided in its own type, where there are several ranks, and then rounded once.
    """
    if ranks > 1:
        bits.divide(device, total, ranks)
    words = total.view(f"u{total.dtype.itemsize}")
    return words if total.dtype == dtype else elements.narrowed(device, words, dtype)[0]


def count_nonzero(device: Device, words: Any) -> int:
    """How many of (n,) words, below 2^31, are not 0 but for their sign; waits for the device."""
    if not words.size:
        return 0
    counter = Selector(device, words.size, words.dtype, 0)
    made = counter.select(words, device.put(rule_of(1)), mask=magnitude_of(words))
    return made.count(device)[0]
