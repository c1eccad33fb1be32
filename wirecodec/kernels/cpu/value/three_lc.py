"""Kernels of 3LC (formats/spec/value/3lc.md): largest magnitude, digits, five per byte, runs of zeros.

Encoder and decoder process blocks of 320 values, whose digits are buffered as one byte each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.masks64 import keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import prefetch
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, reduce_max, select, splat, store
from wirecodec.kernels.cpu.simd.words import load64, store64, trailing_zeros

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

DIGITS = 5
"""Digits per byte."""
ROW = 64
"""Bytes of codes per block."""
BLOCK = DIGITS * ROW
ZERO_BYTE = 121
"""Byte of five neutral digits."""
FIRST_RUN, MAX_RUN = 243, 14
"""Byte of the shortest run, which has two zero bytes; longest run."""
WRITE_MARGIN = ROW * MAX_RUN + 16
"""Bytes beyond the result that a kernel may overwrite."""
BAD_COUNT, BAD_RUN, BAD_DIGIT = 1, 2, 3
"""Error codes of ``expand_runs`` and ``dequantise``."""

_PREFETCH_DISTANCE = 2048
"""Values between the one being read and the one being prefetched."""
_SIGN = 1 << 31
_POWERS = 0x51_1B_09_03_01
"""The powers 81, 27, 9, 3, 1 as bytes; byte 4 of a product with five digits is their base-3 number."""
_ALL_BITS = ~U64(0)


@kernel
def max_magnitude(bits: Array) -> Any:
    """Find the largest magnitude of binary32 numbers, as bits."""
    top = keys64(load_tail64(bits), 0)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _PREFETCH_DISTANCE, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
    return reduce_max(top)


@inline
def _quantise64(bits: Array, start: int, threshold: np.uint32) -> Any:
    """Quantise 64 values: 2 if at least the threshold, 0 if at most minus the threshold, else 1.

    After subtracting the threshold, only magnitudes that reach it are below 2^31 - threshold.
    """
    prefetch(bits, start + _PREFETCH_DISTANCE, 64)
    past = load(bits, start, 64) - threshold
    reach = U32(_SIGN) - threshold
    one, two = splat(U8(1), 64), splat(U8(2), 64)
    return select(past < reach, two, select((past ^ _SIGN) < reach, one ^ one, one))


@inline
def _pack_digits(digits: Array, at: int) -> np.uint8:
    """Pack five digits into a base-3 number, most significant digit first."""
    return U8(load64(digits, at) * U64(_POWERS) >> U64(32) & U64(255))


@kernel
def quantise(bits: Array, threshold: np.uint32, codes: Array) -> None:
    """Quantise values to bytes of five digits, without runs.

    Args:
        bits: (r,) u32, finite binary32 numbers.
        threshold: bits of the smallest magnitude that is not quantised to zero; not 0.
        codes: u8, written; at least ⌈r/5⌉ bytes.
    """
    whole = bits.size // BLOCK
    digits = np.empty(BLOCK + 8, np.uint8)
    for block in range(whole):
        for row in range(DIGITS):
            store(digits, row * ROW, _quantise64(bits, block * BLOCK + row * ROW, threshold))
        part = codes[block * ROW : (block + 1) * ROW]
        for j in range(ROW):
            part[j] = _pack_digits(digits, DIGITS * j)
    start = whole * BLOCK
    digits[:] = U8(1)
    for i in range(start, bits.size):
        if U32(bits[i] & U32(_SIGN - 1)) >= threshold:
            digits[i - start] = U8(0 if bits[i] >= U32(_SIGN) else 2)
    for j in range(-(-(bits.size - start) // DIGITS)):
        codes[whole * ROW + j] = _pack_digits(digits, DIGITS * j)


@inline
def _write_longest_runs(run: int, out: Array, at: int) -> tuple[int, int]:
    """Write the longest runs of fewer than 112 zero bytes; return remaining zeros and next position."""
    store64(out, at, _ALL_BITS)
    return run % MAX_RUN, at + run // MAX_RUN


@inline
def _write_run(run: int, out: Array, at: int) -> int:
    """Write a run of fewer than 112 zero bytes; return the next position."""
    rest, at = _write_longest_runs(run, out, at)
    out[at] = U8(ZERO_BYTE) if rest == 1 else U8(FIRST_RUN - 2 + rest)
    return at + (rest > 0)


@kernel
def shorten_runs(codes: Array, count: int, out: Array) -> int:
    """Replace runs of the zero byte by single bytes, and return the resulting length.

    Bytes between two runs are copied together.

    Args:
        codes: u8, ``count`` bytes and a margin of WRITE_MARGIN bytes, which is overwritten.
        count: number of bytes.
        out: u8, written; at least count + WRITE_MARGIN bytes.
    """
    at = 0
    run = 0  # pending zero bytes of previous blocks, fewer than 14
    beyond = -count % ROW
    codes[count : count + beyond] = U8(0)
    for start in range(0, count + beyond, ROW):
        zeros = mask_to_bits(load(codes, start, 64) == ZERO_BYTE)
        here = 0
        if run > 0:
            here = trailing_zeros(~zeros)
            run += here
            if here == ROW:
                run, at = _write_longest_runs(run, out, at)
                continue
            at = _write_run(run, out, at)
            run = 0
        runs = zeros & (
            zeros >> U64(1) | U64(1) << U64(63)
        )  # two zero bytes in a row, or one at the end of the block
        while here < ROW:
            ahead = min(trailing_zeros(runs >> U64(here)), ROW - here)
            store(out, at, load(codes, start + here, 64))
            at += ahead
            here += ahead
            if here < ROW:
                length = min(trailing_zeros(~zeros >> U64(here)), ROW - here)
                here += length
                if here == ROW:
                    run, at = _write_longest_runs(length, out, at)
                else:
                    at = _write_run(length, out, at)
    return _write_run(run, out, at) - beyond


@kernel
def expand_runs(section: Array, count: int, codes: Array) -> int:
    """Expand runs of zeros.

    Args:
        section: u8, the bytes with runs.
        count: expected number of bytes.
        codes: u8, written; count + WRITE_MARGIN bytes.

    Returns:
        0, BAD_COUNT if the result does not have ``count`` bytes, or BAD_RUN if two runs could be one.
    """
    at = 0
    unmerged = U64(0)
    open_run = U64(0)  # 1 if the previous byte is a run that could be longer
    for start in range(0, section.size & ~63, 64):
        if at > count:
            return BAD_COUNT
        block = load(section, start, 64)
        runs = mask_to_bits(block >= FIRST_RUN)
        zeros = runs | mask_to_bits(block == ZERO_BYTE)
        short = zeros & ~mask_to_bits(block == 255)
        unmerged |= zeros & (short << U64(1) | open_run)
        open_run = short >> U64(63)
        if runs == U64(0):
            store(codes, at, block)
            at += 64
            continue
        part = section[start : start + 64]
        for k in range(64):
            at += _expand_byte(part[k], codes, at)
    if at > count:
        return BAD_COUNT
    for i in range(section.size & ~63, section.size):
        code = section[i]
        zeros = U64(code >= FIRST_RUN or code == ZERO_BYTE)
        unmerged |= zeros & open_run
        open_run = zeros & U64(code != 255)
        at += _expand_byte(code, codes, at)
    if at != count:
        return BAD_COUNT
    return BAD_RUN if unmerged != U64(0) else 0


@inline
def _expand_byte(code: np.uint8, codes: Array, at: int) -> int:
    """Expand one byte, overwriting up to 16 bytes; return the length of the result."""
    run = code >= FIRST_RUN
    store(codes, at, splat(U8(ZERO_BYTE) if run else code, 16))
    return np.int64(code) - (FIRST_RUN - 2) if run else 1


@inline
def _unpack_digits(code: int) -> np.uint64:
    """Unpack a code into five digits, one byte each, first digit lowest."""
    digits = U64(0)
    for _ in range(DIGITS):
        digits = digits << U64(8) | U64(code % 3)
        code //= 3
    return digits


@kernel
def dequantise(codes: Array, zero: Any, plus: Any, minus: Any, out: Array) -> int:
    """Replace digits by words.

    Args:
        codes: u8, below 243; at least ⌈r/5⌉ bytes.
        zero: word of the neutral digit.
        plus, minus: words of 1 and -1.
        out: (r,) words, written.

    Returns:
        0, or BAD_DIGIT if a digit after the last value is not neutral.
    """
    table = np.empty(256, np.uint64)
    for code in range(256):
        table[code] = _unpack_digits(code)
    digits = np.empty(BLOCK + 8, np.uint8)
    whole = out.size // BLOCK
    for block in range(whole):
        part = codes[block * ROW : (block + 1) * ROW]
        for j in range(ROW):
            store64(digits, DIGITS * j, table[part[j]])
        for row in range(DIGITS):
            digit = load(digits, row * ROW, 64)
            words = select(digit == 1, splat(zero, 64), splat(minus, 64))
            store(out, block * BLOCK + row * ROW, select(digit == 2, splat(plus, 64), words))
    start = whole * BLOCK
    stray = False
    for j in range(-(-(out.size - start) // DIGITS)):
        five = table[codes[whole * ROW + j]]
        for k in range(DIGITS):
            digit = five >> U64(8 * k) & U64(255)
            i = start + DIGITS * j + k
            if i < out.size:
                out[i] = plus if digit == U64(2) else zero if digit == U64(1) else minus
            else:
                stray |= digit != U64(1)
    return BAD_DIGIT if stray else 0
