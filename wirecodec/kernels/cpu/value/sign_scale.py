"""Kernels of sign-scale (formats/spec/value/sign-scale.md): one pass each to encode and decode."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.floats import sum_floats
from wirecodec.kernels.cpu.simd.masks64 import at_least64, negative64, store_by_mask64
from wirecodec.kernels.cpu.simd.vector import load
from wirecodec.kernels.cpu.simd.words import load64, store64

F64 = np.float64
U64 = np.uint64


@kernel
def sum_and_pack_signs(values: Array, bits: Array, minus_zero: Any, signs: Array) -> tuple[float, bool]:
    """Sum the magnitudes and pack the signs.

    Args:
        values: (r,) float32 or float64, r > 0.
        bits: (r,) the bits of ``values``.
        minus_zero: the sign bit of the type.
        signs: (⌈r/8⌉,) zeroed bytes, written; bit i mod 8 of byte i div 8 is set if value i is below zero.

    Returns:
        Σ|v| in the spec page's order, and True if all magnitudes are equal.
    """
    sums = np.zeros(64, F64)
    first = bits.dtype.type(bits[0] & ~minus_zero)
    above = bits.dtype.type(first + bits.dtype.type(1))
    alike = ~U64(0)
    whole = values.size & ~63
    for start in range(0, whole, 64):
        block = values[start : start + 64]
        for j in range(64):
            sums[j] += abs(F64(block[j]))
        alike &= at_least64(bits, start, first) & ~at_least64(bits, start, above)
        store64(signs, start >> 3, negative64(bits, start))
    for i in range(whole, values.size):
        sums[i & 63] += abs(F64(values[i]))
        if (bits[i] & ~minus_zero) != first:
            alike = U64(0)
        signs[i >> 3] |= np.uint8((bits[i] > minus_zero) << (i & 7))
    return sum_floats(load(sums, 0, 64)), alike == ~U64(0)


@kernel
def expand(signs: Array, zero: Any, one: Any, out: Array) -> None:
    """Write ``one`` for each set bit and ``zero`` for each cleared bit."""
    whole = out.size & ~63
    for start in range(0, whole, 64):
        store_by_mask64(out, start, load64(signs, start >> 3), zero, one)
    for i in range(whole, out.size):
        out[i] = one if (signs[i >> 3] >> (i & 7)) & 1 else zero
