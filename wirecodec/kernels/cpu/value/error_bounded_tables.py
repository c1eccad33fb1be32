"""Frequency tables of error-bounded (formats/spec/value/error-bounded.md), from levels or counts."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.layout import BOUNDED_ESCAPE

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

ESCAPE, BINS = BOUNDED_ESCAPE, 32
"""Symbol of an escape, and number of bins."""
NO_LEVEL = U8(255)
"""Level of a bin that is left out."""
WIDTHS = np.array([1] * 8 + [2] * 4 + [4] * 4 + [1] * 17, np.int64)
"""Symbols per bin; the last one is the escape."""
POWERS = np.array(
    [
        *(1048576, 1004120, 961548, 920782, 881744, 844361, 808563, 774282),
        *(741455, 710020, 679917, 651091, 623487, 597053, 571740, 547500),
    ],
    np.uint64,
)
"""2^20 · 2^(-i/16), rounded to the nearest integer."""
ESCAPE_COST = 24 << 8
"""Raw bits of an escape, in 1/256 bit."""


@inline_without_refcounts
def _weigh_level(level: U8) -> U64:
    """Compute the weight of a level."""
    return U64(0) if level == NO_LEVEL else POWERS[level & 15] >> U64(level >> 4)


@inline_without_refcounts
def _compute_frequencies(levels: Array, out: Array) -> None:
    """Convert (33,) levels, the escape's last, to (49,) frequencies that sum to 4096."""
    whole = U64(0)
    for b in range(BINS + 1):
        whole += _weigh_level(levels[b])
    left, symbol, first = 4096, 0, 0
    for b in range(BINS + 1):
        weight, width = _weigh_level(levels[b]), U64(WIDTHS[b])
        f = max(U32(1), U32(U64(weight << U64(12)) // U64(whole * width))) if weight else U32(b == BINS)
        for _ in range(WIDTHS[b]):
            out[symbol] = f
            first = symbol if f > out[first] else first
            left -= np.int64(f)
            symbol += 1
    out[first] = U32(np.int64(out[first]) + left)


@inline_without_refcounts
def _find_level(count: U64, total: U64) -> U8:
    """Find the smallest level whose weight is at most count / total · 2^20."""
    if count == U64(0):
        return NO_LEVEL
    level, end = 0, 254
    while level < end:  # weights decrease with the level
        middle = (level + end) >> 1
        if _weigh_level(U8(middle)) * total > count << U64(20):
            level = middle + 1
        else:
            end = middle
    return U8(level)


@inline_without_refcounts
def _estimate_cost(counts: Array, frequencies: Array) -> np.int64:
    """Estimate the size of the symbols in 1/256 bit.

    Logarithms are interpolated linearly between powers of two.
    """
    cost = np.int64(0)
    escapes = np.int64(counts[ESCAPE])
    for symbol in range(ESCAPE + 1):
        n, f = np.int64(counts[symbol]), np.int64(frequencies[symbol])
        if symbol == ESCAPE:
            n = escapes
            cost += n * ESCAPE_COST
        elif f == 0:
            escapes += n
            continue
        octave = 63 - leading_zeros(U64(f))
        cost += n * (3328 - (octave << 8) - ((f << 8) >> octave))
    return cost


@kernel
def fill(levels: Array, mask: int, table: Array) -> None:
    """Fill rows of the frequency table.

    Args:
        levels: (rows, 33) u8.
        mask: one bit per row, set for each row to fill.
        table: (rows, ≥ 49) u32, written: frequency · 4096 + start, or 0 for an absent symbol.
    """
    for row in range(levels.shape[0]):
        if not (mask >> row) & 1:
            continue
        _compute_frequencies(levels[row], table[row])
        start = U32(0)
        for symbol in range(ESCAPE + 1):
            f = table[row, symbol]
            table[row, symbol] = U32(f << U32(12)) + start if f else U32(0)
            start += f


@kernel
def fit(counts: Array, min_symbols: int, levels: Array) -> int:
    """Replace levels by levels fitted to counts if this makes the section smaller.

    Args:
        counts: (rows, ≥ 49) u32.
        min_symbols: minimum count of a row to be fitted, at least 1.
        levels: (rows, 33) u8, the default levels, updated.

    Returns:
        Mask with one bit per row, set if the row was replaced.
    """
    mask = 0
    initial = np.empty(ESCAPE + 1, np.uint32)
    fitted = np.empty(ESCAPE + 1, np.uint32)
    fitted_levels = np.empty(BINS + 1, np.uint8)
    for row in range(counts.shape[0]):
        total = U64(0)
        for symbol in range(ESCAPE + 1):
            total += U64(counts[row, symbol])
        if total < U64(min_symbols):
            continue
        symbol, used = 0, 0
        for b in range(BINS):
            n = U64(0)
            for _ in range(WIDTHS[b]):
                n += U64(counts[row, symbol])
                symbol += 1
            fitted_levels[b] = _find_level(n, total)
            if n > U64(0):
                used = b + 1
        fitted_levels[BINS] = _find_level(U64(counts[row, ESCAPE]), total)
        _compute_frequencies(fitted_levels, fitted)
        _compute_frequencies(levels[row], initial)
        if _estimate_cost(counts[row], fitted) + ((2 + used) << 11) < _estimate_cost(counts[row], initial):
            copy_elements(fitted_levels, 0, BINS + 1, levels[row], 0)
            mask |= 1 << row
    return mask
