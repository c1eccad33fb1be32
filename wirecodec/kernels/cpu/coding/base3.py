"""Ternary digits, five a byte (formats/spec/value/terngrad.md): blocks of 320 digits in 64 bytes.

Byte j of a block holds its digits j, 64 + j, …, 256 + j, the first one in the highest place. A last block of
m digits has ⌈m/5⌉ bytes, and digits as far apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, select, splat, store
from wirecodec.kernels.layout import TERNARY_BLOCK, TERNARY_DIGITS

__all__ = ["BAD_BYTE", "BAD_PADDING", "ROW", "expand", "pack_block", "pack_last"]

U8 = np.uint8
U64 = np.uint64

ROW = TERNARY_BLOCK // TERNARY_DIGITS
GREATEST = 242
BAD_BYTE, BAD_PADDING = 1, 2


@inline
def pack_block(digits: Array, packed: Array, start: int) -> None:
    """320 digits (u8) into the 64 bytes from ``start`` on."""
    sums = load(digits, 0, 64)
    for row in range(1, TERNARY_DIGITS):
        sums = sums + sums + sums + load(digits, row * ROW, 64)
    store(packed, start, sums)


@inline
def pack_last(digits: Array, packed: Array, start: int) -> None:
    """The digits of a shorter block, ones after them, into the bytes from ``start`` on."""
    rows = packed.size - start
    for j in range(rows):
        number = 0
        for digit in range(TERNARY_DIGITS):
            number = 3 * number + np.int64(digits[digit * rows + j])
        packed[start + j] = U8(number)


@kernel
def expand(packed: Array, minus: Any, plus: Any, out: Array) -> int:
    """Each of ``out`` the word ``minus``, zero or ``plus`` for the digits 0, 1 and 2.

    Args:
        packed: (⌈r/5⌉,) bytes.
        minus, plus: of the type of ``out``.
        out: (r,) words, written.

    Returns 0, or BAD_BYTE where a byte holds no five digits, or BAD_PADDING where a digit after the last is
    not 1.
    """
    zero = out.dtype.type(0)
    whole = out.size // TERNARY_BLOCK
    above = U64(0)
    for block in range(whole):
        left = load(packed, block * ROW, 64)
        above |= mask_to_bits(left > GREATEST)
        nothing = splat(U8(0), 64)
        weight = splat(U8(81), 64)
        for row in range(TERNARY_DIGITS):
            some, more = left >= 81, left >= 162
            words = select(more, splat(plus, 64), select(some, splat(zero, 64), splat(minus, 64)))
            store(out, block * TERNARY_BLOCK + row * ROW, words)
            left = left - select(some, weight, nothing) - select(more, weight, nothing)
            left = left + left + left
    start = whole * TERNARY_BLOCK
    rows = packed.size - whole * ROW
    stray = False
    for j in range(rows):
        left_over = np.int64(packed[whole * ROW + j])
        above |= U64(left_over > GREATEST)
        for row in range(TERNARY_DIGITS):
            digit = left_over // 81
            left_over = left_over % 81 * 3
            i = start + row * rows + j
            if i < out.size:
                out[i] = minus if digit == 0 else (zero if digit == 1 else plus)
            else:
                stray |= digit != 1
    if above != U64(0):
        return BAD_BYTE
    return BAD_PADDING if stray else 0
