"""Kernel of the contexts of the value codec steps: which rows share a table of frequencies.

Bits are counted as integers, so that every machine makes the same choice.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros

U64 = np.uint64
FRACTION, PIECES = U64(32), U64(12)
"""Bits of a fraction of a bit; and those after the first one of a number, of which a table has logarithms."""
OF_TABLE, OF_SYMBOL, OF_CONTEXT = 8 << 32, 10 << 32, 16 << 32
"""Bits of a table, of each of its frequencies, and of a further context, about."""


@inline
def weigh(n: int, logarithms: Array) -> int:
    """Return n · log2(n), for n below 2^26, in fractions of a bit."""
    if n < 2:
        return 0
    first = U64(63) - U64(leading_zeros(U64(n)))
    rest = (U64(n) << (U64(63) - first)) & U64(0x7FFFFFFFFFFFFFFF)
    piece = rest >> (U64(63) - PIECES)
    part = (rest >> (U64(63) - PIECES - FRACTION)) & U64(0xFFFFFFFF)
    low = U64(logarithms[piece])
    more = ((U64(logarithms[piece + U64(1)]) - low) * part) >> FRACTION
    return np.int64(U64(n) * ((first << FRACTION) + low + more))


@inline
def measure(one: Array, other: Array, logarithms: Array) -> int:
    """Return the bits of the symbols of two rows together, and of their table, in fractions of a bit."""
    total, bits = 0, OF_TABLE
    for symbol in range(one.size):
        n = one[symbol] + other[symbol]
        if n:
            total += n
            bits += OF_SYMBOL - weigh(n, logarithms)
    return bits + weigh(total, logarithms)


@kernel
def join_rows(counts: Array, most: int, logarithms: Array, starts: Array) -> int:
    """Join neighbouring rows to contexts while that saves bits, or while there are too many.

    Args:
        counts: (rows, symbols) i64, changed.
        most: contexts.
        logarithms: (2^12 + 1,) u64, log2(1 + i / 2^12) in fractions of a bit.
        starts: (rows,) i64, written: the first row of each context; that of the first one is the first used.

    Returns the number of contexts.
    """
    n, nothing = 0, np.zeros(counts.shape[1], np.int64)
    costs, joined = np.empty(counts.shape[0], np.int64), np.empty(counts.shape[0], np.int64)
    for row in range(counts.shape[0]):
        starts[n], costs[n] = row, measure(counts[row], nothing, logarithms)
        n += costs[n] != OF_TABLE  # which is the cost of a row without symbols
    groups = starts[:n].copy()
    for i in range(n - 1):
        joined[i] = measure(counts[groups[i]], counts[groups[i + 1]], logarithms)
    while n > 1:
        best, at = costs[0] + costs[1] - joined[0], 0
        for i in range(1, n - 1):
            saved = costs[i] + costs[i + 1] - joined[i]
            if saved > best:
                best, at = saved, i
        if best + OF_CONTEXT <= 0 and n <= most:
            break
        for symbol in range(counts.shape[1]):
            counts[groups[at], symbol] += counts[groups[at + 1], symbol]
        costs[at] = joined[at]
        n -= 1
        for i in range(at + 1, n):
            groups[i], costs[i], starts[i] = groups[i + 1], costs[i + 1], starts[i + 1]
        for i in range(at, n - 1):
            joined[i] = joined[i + 1]
        for i in range(max(at - 1, 0), min(at + 1, n - 1)):
            joined[i] = measure(counts[groups[i]], counts[groups[i + 1]], logarithms)
    return n
