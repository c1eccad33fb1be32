"""Rows of frequencies of error-bounded (formats/spec/value/error-bounded.md), from levels or counts."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["fill", "fit"]

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

ESCAPE, BINS = BOUNDED_ESCAPE, 32
NONE = U8(255)
WIDTHS = np.array([1] * 8 + [2] * 4 + [4] * 4 + [1] * 17, np.int64)
"""Symbols of each bin."""
POWERS = np.array(
    [
        *(1048576, 1004120, 961548, 920782, 881744, 844361, 808563, 774282),
        *(741455, 710020, 679917, 651091, 623487, 597053, 571740, 547500),
    ],
    np.uint64,
)
"""2^20 · 2^(-i/16), to the nearest integer."""
ESCAPED = 24 << 8
"""What an escape costs besides its symbol, in 256ths of a bit."""


@inline_without_refcounts
def _weight(level: U8) -> U64:
    return U64(0) if level == NONE else POWERS[level & 15] >> U64(level >> 4)


@inline_without_refcounts
def _frequencies(levels: Array, out: Array) -> None:
    """(33,) levels, the last that of the escape, to (49,) frequencies whose sum is 4096."""
    whole = U64(0)
    for b in range(BINS + 1):
        whole += _weight(levels[b])
    left, symbol, first = 4096, 0, 0
    for b in range(BINS + 1):
        weight, width = _weight(levels[b]), U64(WIDTHS[b])
        f = max(U32(1), U32(U64(weight << U64(12)) // U64(whole * width))) if weight else U32(b == BINS)
        for _ in range(WIDTHS[b]):
            out[symbol] = f
            first = symbol if f > out[first] else first
            left -= np.int64(f)
            symbol += 1
    out[first] = U32(np.int64(out[first]) + left)


@inline_without_refcounts
def _level(count: U64, total: U64) -> U8:
    """The least level whose weight is no more than a share of 2^20."""
    if count == U64(0):
        return NONE
    level, end = 0, 254
    while level < end:  # weights fall as levels rise
        middle = (level + end) >> 1
        if _weight(U8(middle)) * total > count << U64(20):
            level = middle + 1
        else:
            end = middle
    return U8(level)


@inline_without_refcounts
def _cost(counts: Array, frequencies: Array) -> np.int64:
    """About what the symbols take, in 256ths of a bit: logarithms are linear between powers of two."""
    cost = np.int64(0)
    escapes = np.int64(counts[ESCAPE])
    for symbol in range(ESCAPE + 1):
        n, f = np.int64(counts[symbol]), np.int64(frequencies[symbol])
        if symbol == ESCAPE:
            n = escapes
            cost += n * ESCAPED
        elif f == 0:
            escapes += n
            continue
        octave = 63 - leading_zeros(U64(f))
        cost += n * (3328 - (octave << 8) - ((f << 8) >> octave))
    return cost


@kernel
def fill(levels: Array, mask: int, table: Array) -> None:
    """Fill rows of ``table``, (rows, 49) u32, from ``levels``, (rows, 33) u8: frequency · 4096 + start, or 0.

    ``mask`` has a bit set for each row to fill.
    """
    for row in range(levels.shape[0]):
        if not (mask >> row) & 1:
            continue
        _frequencies(levels[row], table[row])
        start = U32(0)
        for symbol in range(ESCAPE + 1):
            f = table[row, symbol]
            table[row, symbol] = U32(f << U32(12)) + start if f else U32(0)
            start += f


@kernel
def fit(counts: Array, least: int, levels: Array) -> int:
    """Replace levels by those of what was counted where that pays; which rows, as a mask.

    Args:
        counts: (rows, 49) u32.
        least: what a row must count to be looked at, at least 1.
        levels: (rows, 33) u8, the usual ones, changed.
    """
    mask = 0
    usual = np.empty(ESCAPE + 1, np.uint32)
    fitted = np.empty(ESCAPE + 1, np.uint32)
    found = np.empty(BINS + 1, np.uint8)
    for row in range(counts.shape[0]):
        total = U64(0)
        for symbol in range(ESCAPE + 1):
            total += U64(counts[row, symbol])
        if total < U64(least):
            continue
        symbol, used = 0, 0
        for b in range(BINS):
            n = U64(0)
            for _ in range(WIDTHS[b]):
                n += U64(counts[row, symbol])
                symbol += 1
            found[b] = _level(n, total)
            if n > U64(0):
                used = b + 1
        found[BINS] = _level(U64(counts[row, ESCAPE]), total)
        _frequencies(found, fitted)
        _frequencies(levels[row], usual)
        if _cost(counts[row], fitted) + ((2 + used) << 11) < _cost(counts[row], usual):
            levels[row] = found
            mask |= 1 << row
    return mask
