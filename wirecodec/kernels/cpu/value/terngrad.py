"""Kernels of TernGrad (formats/spec/value/terngrad.md): scaling, random digits, packing.

Each operation rounds once, in the spec page's order, so every backend writes the same bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding.base3 import ROW, pack_block, pack_last
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float, sum_floats, to_float64
from wirecodec.kernels.cpu.simd.masks64 import keys64
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.vector import load, ramp, reduce_max, resize, select, splat, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits
from wirecodec.kernels.layout import TERNARY_BLOCK

F32 = np.float32
F64 = np.float64
U32 = np.uint32
U64 = np.uint64

TWO23 = 8388608.0
"""2^23 and its binary32 bits; adding it rounds a non-negative number below 2^23 to an integer."""
TWO23_BITS = U32(0x4B000000)


@kernel
def max_magnitude(bits: Array) -> float:
    """Find the largest |x| of float32 values, given as their bits."""
    top = splat(U32(0), 64)
    whole = bits.size & ~63
    for start in range(0, whole, 64):
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
    found = reduce_max(top)
    for i in range(whole, bits.size):
        found = max(found, U32(bits[i] & U32(0x7FFFFFFF)))
    return f32_from_bits(U32(found))


@kernel
def sum_of_squares(x: Array) -> float:
    """Sum the squares of float32 values in binary64, in the spec page's order."""
    lanes = splat(U64(0), 64)
    whole = x.size & ~63
    for start in range(0, whole, 64):
        wide = to_float64(load(x, start, 64))
        lanes = add_floats(lanes, multiply_floats(wide, wide))
    sums = np.empty(64, F64)
    store(sums, 0, lanes)
    for i in range(whole, x.size):
        sums[i & 63] += F64(x[i]) * F64(x[i])
    return sum_floats(load(sums, 0, 64))


@inline
def _draw_row(keys: Any, words: Any, top: np.uint32, inverse: float) -> Any:
    """Draw the digits of 16 values; ``words`` are the random draws."""
    magnitudes = (keys << 1) >> 1
    magnitudes = select(magnitudes > top, splat(top, 16), magnitudes)
    scaled = multiply_floats(magnitudes, splat_float(inverse, magnitudes))
    # Adding 2^23 rounds a number to an integer in the lowest bits.
    nearest = add_floats(scaled, splat_float(TWO23, scaled)) - TWO23_BITS
    sent = (nearest + words) >> 16
    return (sent + U32(1)) - ((sent & (keys >> 31)) << 1)


@inline
def _draw_digits(
    bits: Array, start: int, place: int, top: U32, inverse: float, low: U32, high: U32, out: Array
) -> None:
    """Draw 320 digits.

    Args:
        bits: binary32 bits of the values.
        start: offset of the first value in ``bits``.
        place: number of the first value in the chunk.
        top: bits of the scale.
        inverse: 2^16 / scale, or 0.
        low, high: the halves of the chunk's random stream.
        out: (320,) u8, written.
    """
    lanes = ramp(16, 32) * U32(0x9E3779B9)
    for j in range(0, TERNARY_BLOCK, 32):
        # draw16 of the counter hash: one word serves two values 16 apart
        x = lanes + U32(U32((place + j) >> 1) * U32(0x9E3779B9) + low)
        x = (x ^ (x >> 16)) * U32(0x21F0AAAD)
        x = ((x ^ (x >> 15)) + high) * U32(0xD35A2D97)
        x = x ^ (x >> 15)
        first = _draw_row(load(bits, start + j, 16), x >> 16, top, inverse)
        second = _draw_row(load(bits, start + j + 16, 16), x & U32(0xFFFF), top, inverse)
        store(out, j, resize(first, 8))
        store(out, j + 16, resize(second, 8))


@kernel
def encode(bits: Array, top: np.uint32, low: np.uint32, high: np.uint32, packed: Array) -> None:
    """Quantise float32 values at random and pack five digits per byte.

    Args:
        bits: (r,) binary32 bits.
        top: bits of the scale, which is 0 or at least 2^-100.
        low, high: the halves of the chunk's random stream.
        packed: (⌈r/5⌉,) bytes, written.
    """
    # A scale of 0 is never reached, so all its digits are 1.
    inverse = F64(F32(65536) / f32_from_bits(top)) if top > U32(0) else 0.0
    digits = np.empty(TERNARY_BLOCK, np.uint8)
    whole = bits.size // TERNARY_BLOCK
    for block in range(whole):
        start = block * TERNARY_BLOCK
        _draw_digits(bits, start, start, top, inverse, low, high, digits)
        pack_block(digits, packed, block * ROW)
    start = whole * TERNARY_BLOCK
    last = np.zeros(TERNARY_BLOCK, U32)
    copy_elements(bits, start, bits.size - start, last, 0)
    _draw_digits(last, 0, start, top, inverse, low, high, digits)
    pack_last(digits, packed, whole * ROW)
