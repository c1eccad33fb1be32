"""Count and collect the elements at or above a threshold, in one read of the array each.

A threshold is the bits of a magnitude, of the array's unsigned type. Float bits without the sign order as
magnitudes do. NaN and Inf are therefore above every finite threshold.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.masks64 import at_least64
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, prefetch_ahead
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.words import popcount

U64 = np.uint64

SLACK = 64
"""Elements that ``fill_at_least`` needs free in ``out`` before it reads the next 64."""


@kernel
def count_three(bits: Array, sign: Any, low: Any, middle: Any, high: Any) -> tuple[int, int, int]:
    """Count the magnitudes at or above each of three thresholds; ``sign`` is the sign bit of their type."""
    at_low = at_middle = at_high = 0
    whole = bits.size & ~63
    for start in range(0, whole, 64):
        prefetch_ahead(bits, start + PREFETCH_ELEMENTS, 64)
        at_low += popcount(at_least64(bits, start, low))
        at_middle += popcount(at_least64(bits, start, middle))
        at_high += popcount(at_least64(bits, start, high))
    for i in range(whole, bits.size):
        key = bits[i] & ~sign
        at_low += key >= low
        at_middle += key >= middle
        at_high += key >= high
    return at_low, at_middle, at_high


@kernel
def fill_at_least(
    bits: Array, sign: Any, threshold: Any, infinity: Any, start: int, out: Array, count: int
) -> tuple[int, int, bool]:
    """Store the positions of magnitudes at or above a threshold, ascending.

    Args:
        bits: the elements.
        sign: the sign bit of their type.
        threshold: bits of a magnitude.
        infinity: the bits of infinity.
        start: where to continue, a multiple of 64.
        out: positions; written from ``count`` on while SLACK of them are free.
        count: number of positions so far.

    Returns the position at which it stopped (``bits.size`` at the end), the number of positions in ``out``,
    and whether all elements read were finite.
    """
    nonfinite = U64(0)
    whole = bits.size & ~63
    for at in range(start, whole, 64):
        if out.size - count < 64:
            return at, count, nonfinite == U64(0)
        prefetch_ahead(bits, at + PREFETCH_ELEMENTS, 64)
        nonfinite |= at_least64(bits, at, infinity)
        count += store_set_bits(out, count, at_least64(bits, at, threshold), at)
    if out.size - count < 64:
        return whole, count, nonfinite == U64(0)
    for i in range(max(start, whole), bits.size):
        key = bits[i] & ~sign
        nonfinite |= U64(key >= infinity)
        if key >= threshold:
            out[count] = i
            count += 1
    return bits.size, count, nonfinite == U64(0)
