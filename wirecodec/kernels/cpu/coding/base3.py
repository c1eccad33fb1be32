"""Ternary digits, five per byte (formats/spec/value/terngrad.md): blocks of 320 digits in 64 bytes.

Byte j of a block holds its digits j, 64 + j, …, 256 + j, the first as the most significant. A last block of
m < 320 digits has n = ⌈m/5⌉ bytes, and its byte j holds the digits j, n + j, …, 4n + j.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, select, splat, store
from wirecodec.kernels.layout import TERNARY_BLOCK, TERNARY_DIGITS

U8 = np.uint8
U64 = np.uint64

ROW = TERNARY_BLOCK // TERNARY_DIGITS
MAX_BYTE = 242
BAD_BYTE, BAD_PADDING = 1, 2


@inline
def pack_block(digits: Array, packed: Array, start: int) -> None:
    """Pack 320 digits (u8) into the 64 bytes from ``start`` on."""
    sums = load(digits, 0, 64)
    for row in range(1, TERNARY_DIGITS):
        sums = sums + sums + sums + load(digits, row * ROW, 64)
    store(packed, start, sums)


@inline
def pack_last(digits: Array, packed: Array, start: int) -> None:
    """Pack the digits of a shorter block, padded with ones, into the bytes from ``start`` on."""
    rows = packed.size - start
    for j in range(rows):
        number = 0
        for digit in range(TERNARY_DIGITS):
            number = 3 * number + np.int64(digits[digit * rows + j])
        packed[start + j] = U8(number)


@kernel
def expand(packed: Array, minus: Any, plus: Any, out: Array) -> int:
    """Unpack digits, and write ``minus``, zero or ``plus`` for each digit 0, 1 or 2.

    Args:
        packed: (⌈r/5⌉,) u8.
        minus: raw bits for digit 0, of the type of ``out``.
        plus: raw bits for digit 2, of the type of ``out``.
        out: (r,) raw bits of the values, written.

    Returns:
        0, BAD_BYTE if a byte exceeds 242, or BAD_PADDING if a digit after the last is not 1.
    """
    zero = out.dtype.type(0)
    whole = out.size // TERNARY_BLOCK
    above = U64(0)
    for block in range(whole):
        left = load(packed, block * ROW, 64)
        above |= mask_to_bits(left > MAX_BYTE)
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
    bad_padding = False
    for j in range(rows):
        left_over = np.int64(packed[whole * ROW + j])
        above |= U64(left_over > MAX_BYTE)
        for row in range(TERNARY_DIGITS):
            digit = left_over // 81
            left_over = left_over % 81 * 3
            i = start + row * rows + j
            if i < out.size:
                out[i] = minus if digit == 0 else (zero if digit == 1 else plus)
            else:
                bad_padding |= digit != 1
    if above != U64(0):
        return BAD_BYTE
    return BAD_PADDING if bad_padding else 0
