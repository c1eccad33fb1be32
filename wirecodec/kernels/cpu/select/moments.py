"""Moments of magnitudes over an interval, in one read of the array, and the elements that reach a threshold.

A *key* is an element's magnitude bits, which order as magnitudes do. Sums have one order on every machine,
however a sweep is divided. Within a block of 4096 elements, 64 lanes of binary32 are summed and folded by
``sum_floats``; blocks are then summed in binary64. For float64 elements, all sums are in binary64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    multiply_floats,
    splat_float,
    subtract_floats,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.masks64 import at_least64, keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch_ahead
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import (
    extract_lane,
    load,
    lower_half,
    mask_to_bits,
    reduce_add,
    reduce_max,
    select,
    upper_half,
    widen,
)
from wirecodec.kernels.cpu.simd.words import float_from_bits, popcount

I64 = np.int64
U64 = np.uint64

BLOCK_SIZE = 4096
"""Elements per block: a lane sums 64 of them in binary32, which keeps at least five digits."""
SLACK = 64
PREFETCH_BYTES = 2048  # hardware prefetching stops at page boundaries


@inline
def _load_keys(bits: Array, at: int) -> Any:
    """Load 64 keys, in lanes as wide as the floats of the sums."""
    return widen(keys64(bits, at))


@inline
def _scale_magnitudes(bits: Array, keys: Any, scale: float, half: bool) -> Any:
    """Return |x| · scale of such keys; 16-bit keys are binary16 if ``half``, else bfloat16."""
    shift, rebias, normal = 0, 0, 0
    if bit_width(bits) == 16:
        shift, rebias, normal = (13, 112 << 23, 0x400) if half else (16, 0, 0)
    words = (keys << shift) + rebias
    # Binary16 subnormals become fractions of the smallest normal, which is then subtracted.
    fractions = subtract_floats(words + (1 << 23), splat_float(2.0**-14, keys))
    return multiply_floats(select(keys < normal, fractions, words), splat_float(scale, keys))


@inline
def _sum_logs(bits: Array, start: int, stop: int, scale: float, half: bool) -> tuple[int, float]:
    """Return (e, p) with e · ln 2 + ln p = Σ ln(|x| · scale) over the elements of a block that are not 0.

    Exponents are summed and fractions multiplied, so that one logarithm per block suffices: 1 <= p < 2^8.
    Underflowing elements count as about the smallest normal number.
    """
    digits, bias = (52, 1023) if bit_width(bits) == 64 else (23, 127)
    product = ones = splat_float(1.0, _load_keys(bits, start))
    exponents = ones ^ ones
    for at in range(start, stop, 64):
        keys = _load_keys(bits, at)
        words = _scale_magnitudes(bits, keys, scale, half)
        present = keys != 0
        exponents += select(present, words >> digits, ones >> digits)
        fractions = (words & ((1 << digits) - 1)) | ones
        product = multiply_floats(product, select(present, fractions, ones))
    halves = to_float64(product)
    by32 = multiply_floats(lower_half(halves), upper_half(halves))
    by16 = multiply_floats(lower_half(by32), upper_half(by32))
    by8 = multiply_floats(lower_half(by16), upper_half(by16))  # each below 2^512
    whole = I64(reduce_add(exponents)) + I64(reduce_add(by8 >> 52)) - bias * (stop - start) - 8 * 1023
    fraction = (by8 & ((1 << 52) - 1)) | (1023 << 52)
    by4 = multiply_floats(lower_half(fraction), upper_half(fraction))
    by2 = multiply_floats(lower_half(by4), upper_half(by4))
    return whole, float_from_bits(extract_lane(multiply_floats(lower_half(by2), upper_half(by2)), 0))


@inline
def _sum_block(
    bits: Array,
    start: int,
    stop: int,
    low: np.uint64,
    high: np.uint64,
    origin: float,
    scale: float,
    half: bool,
    with_logs: bool,
    sums: Array,
) -> np.uint64:
    """Store the sums of one block; return its largest key."""
    origins = splat_float(origin, _load_keys(bits, start))
    largest = zeros = origins ^ origins
    firsts = squares = zeros
    count = 0
    for at in range(start, stop, 64):
        prefetch_ahead(bits, at + PREFETCH_BYTES // (bit_width(bits) >> 3), 64)
        keys = _load_keys(bits, at)
        inside = (keys - low) < (high - low)
        y = select(inside, subtract_floats(_scale_magnitudes(bits, keys, scale, half), origins), zeros)
        firsts = add_floats(firsts, y)
        squares = add_floats(squares, multiply_floats(y, y))
        count += popcount(mask_to_bits(inside))
        largest = select(keys > largest, keys, largest)
    sums[0], sums[1], sums[2] = count, sum_floats(firsts), sum_floats(squares)
    sums[3] = sums[4] = 0.0
    if with_logs:
        whole, fraction = _sum_logs(bits, start, stop, scale, half)
        sums[3], sums[4] = whole, math.log(fraction)
    return U64(reduce_max(largest))


@kernel
def sweep(
    bits: Array,
    first: int,
    last: int,
    low: np.uint64,
    high: np.uint64,
    origin: float,
    scale: float,
    half: bool,
    with_logs: bool,
    sums: Array,
) -> np.uint64:
    """Sum over the elements of some blocks with 0 < low <= key < high; return the largest key of the blocks.

    y = |x| · scale - origin. One read.

    Args:
        bits: the elements.
        first, last: range of blocks; block 0 is the tail after the last multiple of 64, block 1 begins the
            array.
        low, high: interval of the keys.
        origin: in the unit of |x| · scale.
        scale: a power of two with which y² neither overflows nor underflows.
        half: whether 16-bit elements are binary16; else they are bfloat16.
        with_logs: whether to sum ln(|x| · scale), over all elements that are not 0.
        sums: (blocks, 5); rows ``first`` ... ``last`` - 1 are written, for ``add_blocks``.
    """
    whole = bits.size & ~63
    top = U64(0)
    for block in range(first, last):
        row = sums[block]
        if block == 0:
            found = _sum_block(load_tail64(bits), 0, 64, low, high, origin, scale, half, with_logs, row)
        else:
            start = (block - 1) * BLOCK_SIZE
            stop = min(start + BLOCK_SIZE, whole)
            found = _sum_block(bits, start, stop, low, high, origin, scale, half, with_logs, row)
        top = max(top, found)
    return top


@kernel
def add_blocks(sums: Array) -> tuple[int, float, float, float]:
    """Return count, Σ y, Σ y² and Σ ln over all blocks."""
    count, firsts, squares, exponents, logs = 0.0, 0.0, 0.0, 0.0, 0.0
    for block in range(sums.shape[0]):
        count += sums[block, 0]
        firsts += sums[block, 1]
        squares += sums[block, 2]
        exponents += sums[block, 3]
        logs += sums[block, 4]
    return I64(count), firsts, squares, exponents * math.log(2.0) + logs


@kernel
def collect_reaching(
    bits: Array, key: np.uint64, numbers: Array, start: int, where: Array, kept: Array, n: int
) -> tuple[int, int]:
    """Collect the elements of at least ``key`` > 0 in their order, as long as the buffers have space.

    Args:
        bits: the elements.
        key: the threshold, above 0.
        numbers: numbers of the elements, or empty if they are numbered from 0.
        start: where to continue, a multiple of 64.
        where: receives the numbers; its last ``SLACK`` elements may be overwritten.
        kept: receives the bits, as long as ``where``; or empty.
        n: number of elements in ``where`` so far.

    Returns the position at which it stopped (``bits.size`` at the end), and the number of elements in
    ``where``.
    """
    whole = bits.size & ~63
    capacity = where.size - SLACK
    if (kept.size and kept.size != where.size) or (numbers.size and numbers.size != bits.size):
        return start, n
    for at in range(start, whole, 64):
        if n > capacity:
            return at, n
        prefetch_ahead(bits, at + PREFETCH_BYTES // (bit_width(bits) >> 3), 64)
        mask = at_least64(bits, at, key)
        if kept.size:
            compress_store(kept, n, load(bits, at, 64), mask)
        if numbers.size:
            n += compress_store(where, n, load(numbers, at, 64), mask)
        else:
            n += store_set_bits(where, n, mask, at)
    if n > capacity:
        return whole, n
    for i in range(whole, bits.size):
        if (U64(bits[i]) & ((U64(1) << U64(bit_width(bits) - 1)) - U64(1))) >= key:
            where[n] = numbers[i] if numbers.size else i
            if kept.size:
                kept[n] = bits[i]
            n += 1
    return bits.size, n
