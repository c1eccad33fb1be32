"""Sums over an array, in binary64 and in a fixed order: 64 partial sums, folded in halves.

Element i goes to partial sum i mod 64, in order; then, for w = 32, 16, … 1, sum j += sum (j + w) for j < w.
So a threshold that is fitted to them is the same in every run, and no sum of float32 values overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.masks import top64

__all__ = ["absolute_sum", "folded", "signed_sums"]

F64 = np.float64
U64 = np.uint64


@inline
def folded(lanes: Array) -> float:
    """The sum of 64 partial sums, which are overwritten."""
    width = 32
    while width:
        for j in range(width):
            lanes[j] += lanes[j + width]
        width >>= 1
    return lanes[0]


@kernel
def absolute_sum(x: Array, bits: Array, sign: Any) -> tuple[float, Any]:
    """Σ|x|, and the bits of the greatest |x|, of float32 or float64 ``x`` with its bits: one read."""
    lanes = np.zeros(64, F64)
    greatest = bits.dtype.type(0)
    whole = x.size & ~63
    for start in range(0, whole, 64):
        block = x[start : start + 64]
        for j in range(64):
            lanes[j] += abs(F64(block[j]))
        greatest = max(greatest, top64(bits, start, ~U64(0)))
    for i in range(whole, x.size):
        lanes[i & 63] += abs(F64(x[i]))
        greatest = max(greatest, bits[i] & ~sign)
    return folded(lanes), greatest


@kernel
def signed_sums(x: Array) -> tuple[float, float]:
    """Σx and Σx² of float32 or float64 ``x``: one read."""
    lanes = np.zeros(64, F64)
    squares = np.zeros(64, F64)
    whole = x.size & ~63
    for start in range(0, whole, 64):
        block = x[start : start + 64]
        for j in range(64):
            value = F64(block[j])
            lanes[j] += value
            squares[j] += value * value
    for i in range(whole, x.size):
        value = F64(x[i])
        lanes[i & 63] += value
        squares[i & 63] += value * value
    return folded(lanes), folded(squares)
