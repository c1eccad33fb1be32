"""Operations on whole arrays on the device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np

from wirecodec.arrays import add_in_order, read_only
from wirecodec.kernels.cuda import batch_sums, bits, elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.stages import SUFFIX
from wirecodec.tensors import DeviceFlat, Flat

_ALIGNED = 64
"""Elements; a part of an array begins at a multiple of them."""


def copy_to_host(device: Device, flat: DeviceFlat) -> Flat:
    """Copy a tensor to the host."""
    return Flat(read_only(device.get(flat.raw_bits).view(flat.dtype)), flat.shape)


def concatenate(device: Device, pieces: Sequence[Any]) -> Any:
    """Concatenate arrays of one type; a single array is returned without a copy."""
    if len(pieces) == 1:
        return pieces[0]
    whole = device.empty(sum(piece.size for piece in pieces), pieces[0].dtype)
    start = 0
    for piece in pieces:
        device.copy(piece, whole[start : start + piece.size])
        start += piece.size
    return whole


def has_nonfinite(device: Device, raw: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether the raw bits of an element type hold a NaN or Inf; waits for the device."""
    return find_nonfinite(device, raw, dtype) >= 0


def find_nonfinite(device: Device, raw: Any, dtype: np.dtype[Any]) -> int:
    """Return the position of the first NaN or Inf among raw bits, or -1; waits for the device."""
    first = int(device.get(bits.find_nonfinite(device, raw, infinity_of(dtype)))[0])
    return -1 if first == bits.NOWHERE else first


def sum_squares(device: Device, flats: Sequence[DeviceFlat]) -> list[float]:
    """Return Σ x² of each tensor, with the bits of ``cpu.momentum.sum_squares``; waits for the device."""
    rows = [-(-flat.raw_bits.size // moments.SQUARES_ROW) for flat in flats]
    sums = device.empty(sum(rows), np.float64)
    at = 0
    for flat, count in zip(flats, rows, strict=True):
        if count:
            wide = np.dtype(np.float64 if flat.dtype.itemsize == 8 else np.float32)
            raw = elements.convert(device, flat.raw_bits, flat.dtype, wide).view(f"u{wide.itemsize}")
            moments.sum_squares(device, raw, sums[at : at + count])
            at += count
    row_sums = iter(device.get(sums).tolist())
    return [add_in_order(islice(row_sums, count)) for count in rows]


def zeros(device: Device, size: int, dtype: np.dtype[Any]) -> Any:
    """Allocate (size,) zeros, float32 or float64."""
    result = device.empty(size, dtype)
    device.clear(result)
    return result


def zeros_each(device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> list[Any]:
    """Allocate zeros of several sizes, float32 or float64, as aligned parts of one array."""
    padded = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
    whole = zeros(device, sum(padded), dtype)
    starts = accumulate(padded, initial=0)
    return [whole[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def are_zero(device: Device, words: Sequence[Any]) -> list[bool]:
    """Return for each array of raw bits whether all elements are +0 or -0; waits once per width."""
    zero = [True] * len(words)
    for width in {each.dtype.itemsize for each in words}:
        here = [number for number, each in enumerate(words) if each.dtype.itemsize == width]
        found = batch_sums.find_nonzero(device, [words[number] for number in here])
        for number, nonzero in zip(here, found.tolist(), strict=True):
            zero[number] = not nonzero
    return zero


def means(device: Device, totals: Sequence[Any], divisor: float, dtype: np.dtype[Any]) -> list[Any]:
    """Do the same as ``mean`` for several sums of one type."""
    if totals and totals[0].dtype == np.float32 and dtype.name in SUFFIX:
        return batch_sums.means(device, totals, divisor, dtype)
    return [mean(device, total, divisor, dtype) for total in totals]


def mean(device: Device, total: Any, divisor: float, dtype: np.dtype[Any]) -> Any:
    """Divide a sum in its own type, and round the quotient once.

    Args:
        device: where the sum is.
        total: (n,) float32 or float64; overwritten.
        divisor: above 0; 1 leaves the sum as it is.
        dtype: element type of the result.

    Returns (n,) raw bits.
    """
    if divisor != 1:
        bits.divide(device, total, divisor)
    raw = total.view(f"u{total.dtype.itemsize}")
    return raw if total.dtype == dtype else elements.narrow(device, raw, dtype)[0]


def count_nonzero(device: Device, raw: Any) -> int:
    """Count the numbers that are neither +0 nor -0 among (n,) raw bits, n < 2^31; waits for the device."""
    if not raw.size:
        return 0
    counter = Selector(device, raw.size, raw.dtype, 0)
    selected = counter.select(raw, device.put(rule_of(1)), mask=magnitude_of(raw))
    return selected.count(device)[0]
