"""The loops of TernGrad (formats/spec/value/terngrad.md): scale, digits at random, packing.

All arithmetic is rounded once an operation, in the order of the page, so every backend writes the same bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding.base3 import ROW, pack_block, pack_last
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float, sum_floats, to_float64
from wirecodec.kernels.cpu.simd.masks64 import keys64
from wirecodec.kernels.cpu.simd.vector import load, ramp, reduce_max, resize, select, splat, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits
from wirecodec.kernels.layout import TERNARY_BLOCK

__all__ = ["encode", "largest", "sum_of_squares"]

F32 = np.float32
F64 = np.float64
U32 = np.uint32
U64 = np.uint64

TWO23 = 8388608.0
TWO23_BITS = U32(0x4B000000)


@kernel
def largest(bits: Array) -> float:
    """The largest |x| of float32 values, given as their bits."""
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
    """Σx² of float32 values in binary64, in the page's order."""
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
def _sixteen(keys: Any, words: Any, top: np.uint32, inverse: float) -> Any:
    """Digits of 16 values, given as their bits, of which ``words`` are the draws."""
    magnitudes = (keys << 1) >> 1
    magnitudes = select(magnitudes > top, splat(top, 16), magnitudes)
    scaled = multiply_floats(magnitudes, splat_float(inverse, magnitudes))
    # Added to 2^23, a number is rounded to an integer, which stands in the lowest bits.
    nearest = add_floats(scaled, splat_float(TWO23, scaled)) - TWO23_BITS
    sent = (nearest + words) >> 16
    return (sent + U32(1)) - ((sent & (keys >> 31)) << 1)


@inline
def _digits(
    bits: Array, start: int, place: int, top: U32, inverse: float, low: U32, high: U32, out: Array
) -> None:
    """320 digits of the values from ``start`` on, whose places in the chunk begin at ``place``."""
    lanes = ramp(16, 32) * U32(0x9E3779B9)
    for j in range(0, TERNARY_BLOCK, 32):
        # draw16 of the counter hash: a word for values 16 apart
        x = lanes + U32(U32((place + j) >> 1) * U32(0x9E3779B9) + low)
        x = (x ^ (x >> 16)) * U32(0x21F0AAAD)
        x = ((x ^ (x >> 15)) + high) * U32(0xD35A2D97)
        x = x ^ (x >> 15)
        first = _sixteen(load(bits, start + j, 16), x >> 16, top, inverse)
        second = _sixteen(load(bits, start + j + 16, 16), x & U32(0xFFFF), top, inverse)
        store(out, j, resize(first, 8))
        store(out, j + 16, resize(second, 8))


@kernel
def encode(bits: Array, top: np.uint32, low: np.uint32, high: np.uint32, packed: Array) -> None:
    """The digits of float32 values, five a byte.

    Args:
        bits: (r,) theirs.
        top: the bits of the scale, which is 0, or 2^-100 and more.
        low, high: the halves of the chunk's stream.
        packed: (⌈r/5⌉,) bytes, written.
    """
    # Nothing reaches a scale of 0: all its digits are 1.
    inverse = F64(F32(65536) / f32_from_bits(top)) if top > U32(0) else 0.0
    digits = np.empty(TERNARY_BLOCK, np.uint8)
    whole = bits.size // TERNARY_BLOCK
    for block in range(whole):
        start = block * TERNARY_BLOCK
        _digits(bits, start, start, top, inverse, low, high, digits)
        pack_block(digits, packed, block * ROW)
    start = whole * TERNARY_BLOCK
    last = np.zeros(TERNARY_BLOCK, U32)
    last[: bits.size - start] = bits[start:]
    _digits(last, 0, start, top, inverse, low, high, digits)
    pack_last(digits, packed, whole * ROW)
