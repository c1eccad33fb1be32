"""The loops of 3LC (formats/spec/value/3lc.md): the greatest magnitude, digits, five a byte, runs of zeros.

Both ways there are blocks of 320 values, whose digits lie in a buffer, a byte each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.masks64 import keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import prefetch
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, reduce_max, select, splat, store
from wirecodec.kernels.cpu.simd.words import load64, store64, trailing_zeros

__all__ = [
    "BAD_COUNT",
    "BAD_DIGIT",
    "BAD_RUN",
    "DIGITS",
    "SLACK",
    "expand",
    "lengthen",
    "quantise",
    "shorten",
    "top_key",
]

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

DIGITS = 5
ROW = 64
BLOCK = DIGITS * ROW
ZEROS = 121
"""The byte of five neutral digits."""
FIRST_RUN, LONGEST = 243, 14
"""The byte of the shortest run, which is two; the longest run."""
SLACK = ROW * LONGEST + 16
BAD_COUNT, BAD_RUN, BAD_DIGIT = 1, 2, 3

_AHEAD = 2048
_SIGN = 1 << 31
_POWERS = 0x51_1B_09_03_01
_EVERY = ~U64(0)


@kernel
def top_key(bits: Array) -> Any:
    """The greatest magnitude of binary32 numbers, as its bits."""
    top = keys64(load_tail64(bits), 0)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _AHEAD, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
    return reduce_max(top)


@inline
def _digits(bits: Array, start: int, least: np.uint32) -> Any:
    """64 digits: 2 for a number of ``least`` or more, 0 for one of -``least`` or less, else 1.

    Less ``least``, a magnitude that reaches it is below 2^31 - least, and all others above.
    """
    prefetch(bits, start + _AHEAD, 64)
    past = load(bits, start, 64) - least
    reach = U32(_SIGN) - least
    one, two = splat(U8(1), 64), splat(U8(2), 64)
    return select(past < reach, two, select((past ^ _SIGN) < reach, one ^ one, one))


@inline
def _code(digits: Array, at: int) -> np.uint8:
    """Five digits as a number in base 3, the first the most significant: byte 4 of a product."""
    return U8(load64(digits, at) * U64(_POWERS) >> U64(32) & U64(255))


@kernel
def quantise(bits: Array, least: np.uint32, codes: Array) -> None:
    """The codes of values, without runs.

    Args:
        bits: (r,) u32, of finite binary32 numbers.
        least: the bits of the least magnitude that counts, not 0.
        codes: u8, ⌈r/5⌉ of them or more, written.
    """
    whole = bits.size // BLOCK
    digits = np.empty(BLOCK + 8, np.uint8)
    for block in range(whole):
        for row in range(DIGITS):
            store(digits, row * ROW, _digits(bits, block * BLOCK + row * ROW, least))
        part = codes[block * ROW : (block + 1) * ROW]
        for j in range(ROW):
            part[j] = _code(digits, DIGITS * j)
    start = whole * BLOCK
    digits[:] = U8(1)
    for i in range(start, bits.size):
        if U32(bits[i] & U32(_SIGN - 1)) >= least:
            digits[i - start] = U8(0 if bits[i] >= U32(_SIGN) else 2)
    for j in range(-(-(bits.size - start) // DIGITS)):
        codes[whole * ROW + j] = _code(digits, DIGITS * j)


@inline
def _longest(run: int, out: Array, at: int) -> tuple[int, int]:
    """Write what longest runs there are in fewer than 112 zeros; the zeros left, where the next byte goes."""
    store64(out, at, _EVERY)
    return run % LONGEST, at + run // LONGEST


@inline
def _whole(run: int, out: Array, at: int) -> int:
    """Write a run of fewer than 112 zeros; where the next byte goes."""
    rest, at = _longest(run, out, at)
    out[at] = U8(ZEROS) if rest == 1 else U8(FIRST_RUN - 2 + rest)
    return at + (rest > 0)


@kernel
def shorten(codes: Array, count: int, out: Array) -> int:
    """Runs of the byte of zeros as single bytes; how many bytes there are then.

    What lies between two runs is moved at once.

    Args:
        codes: u8, with SLACK behind the ``count`` that there are, which is overwritten.
        count: how many.
        out: u8, written, at least SLACK more.
    """
    at = 0
    run = 0  # zeros before this block that are not written yet, fewer than 14
    beyond = -count % ROW
    codes[count : count + beyond] = U8(0)
    for start in range(0, count + beyond, ROW):
        zeros = mask_to_bits(load(codes, start, 64) == ZEROS)
        here = 0
        if run > 0:
            here = trailing_zeros(~zeros)
            run += here
            if here == ROW:
                run, at = _longest(run, out, at)
                continue
            at = _whole(run, out, at)
            run = 0
        runs = zeros & (zeros >> U64(1) | U64(1) << U64(63))  # two in a row; or one, of an unknown follower
        while here < ROW:
            ahead = min(trailing_zeros(runs >> U64(here)), ROW - here)
            store(out, at, load(codes, start + here, 64))
            at += ahead
            here += ahead
            if here < ROW:
                length = min(trailing_zeros(~zeros >> U64(here)), ROW - here)
                here += length
                if here == ROW:
                    run, at = _longest(length, out, at)
                else:
                    at = _whole(length, out, at)
    return _whole(run, out, at) - beyond


@kernel
def lengthen(section: Array, count: int, codes: Array) -> int:
    """The bytes without runs; 0, BAD_COUNT where they are not ``count``, or BAD_RUN for one to be merged.

    Args:
        section: u8.
        count: how many there should be.
        codes: u8, written, SLACK more than that.
    """
    at = 0
    unmerged = U64(0)
    open_run = U64(0)  # whether the byte before is a run that could be longer
    for start in range(0, section.size & ~63, 64):
        if at > count:
            return BAD_COUNT
        block = load(section, start, 64)
        runs = mask_to_bits(block >= FIRST_RUN)
        zeros = runs | mask_to_bits(block == ZEROS)
        short = zeros & ~mask_to_bits(block == 255)
        unmerged |= zeros & (short << U64(1) | open_run)
        open_run = short >> U64(63)
        if runs == U64(0):
            store(codes, at, block)
            at += 64
            continue
        part = section[start : start + 64]
        for k in range(64):
            at += _token(part[k], codes, at)
    if at > count:
        return BAD_COUNT
    for i in range(section.size & ~63, section.size):
        code = section[i]
        zeros = U64(code >= FIRST_RUN or code == ZEROS)
        unmerged |= zeros & open_run
        open_run = zeros & U64(code != 255)
        at += _token(code, codes, at)
    if at != count:
        return BAD_COUNT
    return BAD_RUN if unmerged != U64(0) else 0


@inline
def _token(code: np.uint8, codes: Array, at: int) -> int:
    """Write what a byte stands for, and more; how many bytes that is."""
    run = code >= FIRST_RUN
    store(codes, at, splat(U8(ZEROS) if run else code, 16))
    return np.int64(code) - (FIRST_RUN - 2) if run else 1


@inline
def _digits_of(code: int) -> np.uint64:
    """The digits of a code, a byte each, the first lowest."""
    digits = U64(0)
    for _ in range(DIGITS):
        digits = digits << U64(8) | U64(code % 3)
        code //= 3
    return digits


@kernel
def expand(codes: Array, zero: Any, plus: Any, minus: Any, out: Array) -> int:
    """Three words for three digits; 0, or BAD_DIGIT where one after the last value is not neutral.

    Args:
        codes: u8, below 243, ⌈r/5⌉ of them or more.
        zero: the word of the neutral digit.
        plus, minus: those of 1 and -1.
        out: (r,) words, written.
    """
    table = np.empty(256, np.uint64)
    for code in range(256):
        table[code] = _digits_of(code)
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
