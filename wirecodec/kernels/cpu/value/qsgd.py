"""Kernels of QSGD (formats/spec/value/qsgd.md): scaling, quantising and packing in one pass, and back in one.

All arithmetic is binary32 with one rounding per operation, in the spec page's order, so every backend writes
the same bytes. Values are processed 512 at a time, which is one block of packed codes. A row of 16 values is
one vector and belongs to one bucket, because buckets are multiples of 16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding.packing import pack_block, pack_rest, unpack_block, unpack_rest
from wirecodec.kernels.cpu.prng import draw32x16
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    float_to_int,
    int_to_float,
    multiply_floats,
    splat_float,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.vector import (
    load,
    odd_lanes,
    reduce_max,
    reinterpret,
    resize,
    select,
    splat,
    store,
    widen,
)
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

U8 = np.uint8
U16 = np.uint16
U32 = np.uint32
F32 = np.float32

ROWS = PACK_BLOCK // PACK_LANES
"""Rows of 16 values per block."""

UNIT, MIN_UNITS_PER_THREAD = 16_384, 16
"""Values per work unit, and the number of units that justifies another thread."""


@inline
def _max_scale(bits: Array, start: int, stop: int) -> np.float32:
    """Find the largest |x| of values start … stop - 1; return 0 if it is below 2^-100."""
    keys = splat(U32(0), 64)
    whole = start + ((stop - start) & ~63)
    for i in range(start, whole, 64):
        here = load(bits, i, 64) & 0x7FFFFFFF
        keys = select(here > keys, here, keys)
    top = reduce_max(keys)
    for i in range(whole, stop):
        top = max(top, U32(bits[i] & U32(0x7FFFFFFF)))
    return _flush_small_scale(f32_from_bits(top))


@inline
def _flush_small_scale(scale: np.float32) -> np.float32:
    """Replace a scale below 2^-100 by 0."""
    return F32(0) if scale < F32(2.0**-100) else scale


@kernel
def max_scales(bits: Array, bucket: int, scales: Array) -> None:
    """Compute each bucket's scale for norm max from binary32 bits."""
    for n in range(scales.size):
        scales[n] = _max_scale(bits, n * bucket, min((n + 1) * bucket, bits.size))


@kernel
def l2_scales(bits: Array, bucket: int, largest: float, scales: Array) -> None:
    """Compute each bucket's scale for norm l2 from binary32 bits, clamped to ``largest``."""
    rest = np.zeros(PACK_LANES, U32)
    whole = bits.size & -PACK_LANES
    copy_elements(bits, whole, bits.size - whole, rest, 0)
    last = to_float64(load(rest, 0, 16))
    for n in range(scales.size):
        sums = splat_float(0.0, last)
        for i in range(n * bucket, min((n + 1) * bucket, whole), PACK_LANES):
            row = to_float64(load(bits, i, 16))
            sums = add_floats(sums, multiply_floats(row, row))
        if n == scales.size - 1:
            sums = add_floats(sums, multiply_floats(last, last))
        scales[n] = _flush_small_scale(F32(min(np.sqrt(sum_floats(sums)), largest)))


@kernel
def quantise(
    bits: Array,
    bucket: int,
    n: int,
    low: np.uint32,
    high: np.uint32,
    scales_given: bool,
    scales: Array,
    words: Array,
    turns: Array,
) -> None:
    """Quantise and pack values; compute the scales of norm max if they are not given.

    Args:
        bits: (r,) binary32 bits.
        bucket: values per scale; at most UNIT if the scales are not given.
        n: bits per code.
        low, high: the halves of the chunk's random stream.
        scales_given: True if ``scales`` is an input.
        scales: (⌈r/bucket⌉,) float32, written if not given.
        words: u32, written: the packed codes.
        turns: counters of ``next_unit``; a unit is UNIT values.
    """
    r, levels = bits.size, (1 << (n - 1)) - 1
    codes, rates, rest = np.empty(PACK_BLOCK, U8), np.zeros(ROWS, U32), np.zeros(PACK_BLOCK, U32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        last, scale = -1, F32(0)
        for start in range(unit * UNIT, min((unit + 1) * UNIT, r), PACK_BLOCK):
            stop = min(start + PACK_BLOCK, r)
            p = start
            while p < stop:
                b = p // bucket
                end = min((b + 1) * bucket, r)
                if scales_given:
                    scale = scales[b]
                elif b != last:
                    scale = _max_scale(bits, b * bucket, end)
                    if b * bucket == p:
                        scales[b] = scale
                last = b
                rate = F32(0) if scale == F32(0) else F32(levels * 65536) / scale
                for row in range((p - start) >> 4, (min(end, stop) - start + 15) >> 4):
                    rates[row] = f32_to_bits(rate)
                p = end
            w = (start // PACK_BLOCK) * PACK_LANES * n
            first = U32((start // PACK_BLOCK) << 8)
            if stop == start + PACK_BLOCK:
                _quantise_block(bits, start, rates, levels, low, high, first, codes)
                pack_block(codes, 0, n, words, w)
            else:
                copy_elements(bits, start, stop - start, rest, 0)
                _quantise_block(rest, 0, rates, levels, low, high, first, codes)
                pack_rest(codes, 0, stop - start, n, words, w)
        unit = next_unit(turns, unit)


@inline
def _quantise_block(
    bits: Array,
    start: int,
    rates: Array,
    levels: int,
    low: np.uint32,
    high: np.uint32,
    first: np.uint32,
    codes: Array,
) -> None:
    """Quantise 512 values; each row has a rate, and random draws start at number ``first``."""
    for row in range(0, ROWS, 2):
        drawn, at = draw32x16(low, high, U32(first + U32(row * 8))), row * PACK_LANES
        even = _scale_row(bits, start + at, rates[row]) + (drawn >> 16)
        odd = _scale_row(bits, start + at + 16, rates[row + 1]) + (drawn & 0xFFFF)
        up = (levels + 1) << 16
        above = odd_lanes(
            reinterpret(even + up, 16), reinterpret(odd + up, 16)
        )  # the codes plus 1, before clamping
        above = select(above > 1, above, splat(U16(1), 32))
        above = select(above < 2 * levels + 1, above, splat(U16(2 * levels + 1), 32))
        store(codes, at, resize(above - 1, 8))


@inline
def _scale_row(bits: Array, i: int, rate: np.uint32) -> Any:
    """Multiply a row by its rate and truncate to integers."""
    return float_to_int(multiply_floats(load(bits, i, 16), splat(rate, 16)))


@kernel
def dequantise(
    words: Array, bucket: int, n: int, scales: Array, out: Array, bad: Array, turns: Array
) -> None:
    """Unpack codes and convert them to values.

    Args:
        words: u32, the packed codes.
        bucket: values per scale.
        n: bits per code.
        scales: (⌈r/bucket⌉,) float32, validated.
        out: (r,) binary32 bits, written.
        bad: (1,) bool, set if a code is above 2s, or is not s in a bucket of scale 0.
        turns: counters of ``next_unit``; a unit is UNIT values.
    """
    r, levels = out.size, (1 << (n - 1)) - 1
    codes, rest = np.empty(PACK_BLOCK, U8), np.empty(PACK_BLOCK, U32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        wrong = False
        for start in range(unit * UNIT, min((unit + 1) * UNIT, r), PACK_BLOCK):
            stop = min(start + PACK_BLOCK, r)
            w = (start // PACK_BLOCK) * PACK_LANES * n
            if stop == start + PACK_BLOCK:
                unpack_block(words, w, n, codes, 0)
                wrong |= _dequantise_block(codes, bucket, levels, scales, start, out, start)
            else:
                codes[:] = levels
                unpack_rest(words, w, n, codes, 0, stop - start)
                wrong |= _dequantise_block(codes, bucket, levels, scales, start, rest, 0)
                copy_elements(rest, 0, stop - start, out, start)
        if wrong:
            bad[0] = True
        unit = next_unit(turns, unit)


@inline
def _dequantise_block(
    codes: Array, bucket: int, levels: int, scales: Array, start: int, out: Array, at: int
) -> bool:
    """Convert 512 codes to values.

    Args:
        codes: (512,) u8.
        bucket, scales: as for ``dequantise``.
        levels: s, the levels above zero.
        start: number of the block's first value.
        out, at: destination and its offset.

    Returns:
        True if a code is invalid.
    """
    wrong = reduce_max(_maximum(_max_of_four(codes, 0, 64), _max_of_four(codes, 256, 320))) > 2 * levels
    first = 0
    while first < PACK_BLOCK:
        b = min((start + first) // bucket, scales.size - 1)  # the last block is padded
        last = min((b + 1) * bucket - start, PACK_BLOCK) if b < scales.size - 1 else PACK_BLOCK
        top = splat(f32_to_bits(scales[b]), 16)
        step = splat(f32_to_bits(scales[b] / F32(levels)), 16)
        for i in range(first, last, PACK_LANES):
            code = widen(load(codes, i, 16))
            value = multiply_floats(int_to_float(code - levels), step)
            value = select(code == 2 * levels, top, value)
            store(out, at + i, select(code == 0, top | 0x80000000, value))
        if scales[b] == F32(0):
            for i in range(first, last):
                wrong |= codes[i] != levels
        first = last
    return wrong


@inline
def _maximum(a: Any, b: Any) -> Any:
    """Compute the element-wise maximum."""
    return select(a > b, a, b)


@inline
def _max_of_four(codes: Array, i: int, j: int) -> Any:
    """Compute the element-wise maximum of 64 codes at i, j, i + 128 and j + 128."""
    here = _maximum(load(codes, i, 64), load(codes, j, 64))
    return _maximum(here, _maximum(load(codes, i + 128, 64), load(codes, j + 128, 64)))


@kernel
def are_scales(bits: Array, smallest: np.float32, largest: np.float32) -> bool:
    """Check that every binary32 number is +0 or in a range.

    Args:
        bits: (n,) u32.
        smallest: lower end of the range, above 0.
        largest: upper end, finite.
    """
    for i in range(bits.size):
        inside = smallest <= f32_from_bits(bits[i]) <= largest
        if bits[i] != U32(0) and not inside:
            return False
    return True
