"""The loops of 3LC (formats/spec/value/3lc.md): the greatest magnitude, digits, five a byte, runs of zeros.

A block of 320 values makes 64 bytes, a digit of each from one row of 64: a byte's lane sees five vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.masks import keys64, last64
from wirecodec.kernels.cpu.memory import prefetch
from wirecodec.kernels.cpu.vector import greatest, load, mask_bits, select, splat, store
from wirecodec.kernels.cpu.words import store64, trailing_zeros
from wirecodec.kernels.layout import TERNARY_BLOCK, TERNARY_DIGITS

__all__ = [
    "BAD_COUNT",
    "BAD_DIGIT",
    "BAD_RUN",
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

ROW = 64
ZEROS = 121
"""The byte of five neutral digits."""
FIRST_RUN, LONGEST = 243, 14
"""The byte of the shortest run, which is two; the longest run."""
SLACK = ROW * LONGEST + 16
BAD_COUNT, BAD_RUN, BAD_DIGIT = 1, 2, 3

_AHEAD = 2048
_SIGN = 1 << 31
_EVERY = ~U64(0)


@kernel
def top_key(bits: Array) -> Any:
    """The greatest magnitude of binary32 numbers, as its bits."""
    top = keys64(last64(bits), 0)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _AHEAD, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
    return greatest(top)


@inline
def _row(bits: Array, start: int, least: np.uint32, weight: np.uint8) -> Any:
    """64 digits, -1, 0 or 1, times their weight, modulo 256.

    Less ``least``, a magnitude that reaches it is below 2^31 - least, and all others above.
    """
    prefetch(bits, start + _AHEAD, 64)
    past = load(bits, start, 64) - least
    reach = U32(_SIGN) - least
    nothing = splat(U8(0), 64)
    weights = splat(weight, 64)
    plus = select(past < reach, weights, nothing)
    return plus - select((past ^ _SIGN) < reach, weights, nothing)


@kernel
def quantise(bits: Array, least: np.uint32, codes: Array) -> None:
    """The bytes of values, without runs.

    Args:
        bits: (r,) u32, of finite binary32 numbers.
        least: the bits of the least magnitude that counts, not 0.
        codes: u8, ⌈r/5⌉ of them or more, written.
    """
    whole = bits.size // TERNARY_BLOCK
    for block in range(whole):
        at = block * TERNARY_BLOCK
        code = _row(bits, at, least, U8(81)) + _row(bits, at + ROW, least, U8(27))
        code += _row(bits, at + 2 * ROW, least, U8(9)) + _row(bits, at + 3 * ROW, least, U8(3))
        store(codes, block * ROW, code + _row(bits, at + 4 * ROW, least, U8(1)) + ZEROS)
    start = whole * TERNARY_BLOCK
    rows = -(-(bits.size - start) // TERNARY_DIGITS)
    for j in range(rows):
        code = 0
        for digit in range(TERNARY_DIGITS):
            i = start + digit * rows + j
            code *= 3
            if i < bits.size and U32(bits[i] & U32(_SIGN - 1)) >= least:
                code += -1 if bits[i] >= U32(_SIGN) else 1
        codes[whole * ROW + j] = U8(code + ZEROS)


@inline
def _longest(run: int, out: Array, at: int) -> tuple[int, int]:
    """Write the longest runs of fewer than 112 zeros; the zeros that are left, and where the next byte goes."""
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
        zeros = mask_bits(load(codes, start, 64) == ZEROS)
        here = 0
        if run > 0:
            here = trailing_zeros(~zeros)
            run += here
            if here == ROW:
                run, at = _longest(run, out, at)
                continue
            at = _whole(run, out, at)
            run = 0
        runs = zeros & (
            zeros >> U64(1) | U64(1) << U64(63)
        )  # where two follow each other; or one, at the end
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
        runs = mask_bits(block >= FIRST_RUN)
        zeros = runs | mask_bits(block == ZEROS)
        short = zeros & ~mask_bits(block == 255)
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


@kernel
def expand(codes: Array, zero: Any, plus: Any, minus: Any, out: Array) -> int:
    """Three words for three digits; 0, or BAD_DIGIT where one after the last value is not neutral.

    Args:
        codes: u8, below 243, ⌈r/5⌉ of them or more.
        zero: the word of the neutral digit.
        plus, minus: those of 1 and -1.
        out: (r,) words, written.
    """
    whole = out.size // TERNARY_BLOCK
    for block in range(whole):
        left = load(codes, block * ROW, 64)
        nothing = splat(U8(0), 64)
        weight = splat(U8(81), 64)
        for row in range(TERNARY_DIGITS):
            some, more = left >= 81, left >= 162
            words = select(more, splat(plus, 64), select(some, splat(zero, 64), splat(minus, 64)))
            store(out, block * TERNARY_BLOCK + row * ROW, words)
            left = left - select(some, weight, nothing) - select(more, weight, nothing)
            left = left + left + left
    start = whole * TERNARY_BLOCK
    rows = -(-(out.size - start) // TERNARY_DIGITS)
    stray = False
    for j in range(rows):
        left = np.int64(codes[whole * ROW + j])
        for digit in range(TERNARY_DIGITS):
            value = left // 81
            left = left % 81 * 3
            i = start + digit * rows + j
            if i < out.size:
                out[i] = plus if value == 2 else zero if value == 1 else minus
            else:
                stray |= value != 1
    return BAD_DIGIT if stray else 0
