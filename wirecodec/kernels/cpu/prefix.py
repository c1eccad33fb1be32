"""Canonical prefix codes (formats/spec/index/huffman.md): lengths, codes, a reader's table.

Integers only, ties decided by the symbols' order, so that one input has one code everywhere.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.words import load64
from wirecodec.kernels.layout import HUFFMAN_BITS

__all__ = ["ENTRY_EXTRA", "ENTRY_LENGTH", "ENTRY_VALUE", "LOOKUP", "codes", "lengths", "table", "window"]

U32 = np.uint32
U64 = np.uint64

ENTRY_LENGTH, ENTRY_EXTRA, ENTRY_VALUE = 8, 16, 24
"""Where the fields of a table's entry begin; all the bits that a symbol takes are the lowest field."""
LOOKUP = U64((1 << HUFFMAN_BITS) - 1)
"""The bits of a window that find its entry."""


@inline
def window(framed: Array, bit: np.uint64) -> np.uint64:
    """57 bits or more of a stream from ``bit`` on."""
    return load64(framed, np.int64(bit >> U64(3))) >> (bit & U64(7))


@kernel
def lengths(counts: Array, found: Array) -> None:
    """Code lengths of least total size, none above HUFFMAN_BITS: package-merge.

    A single symbol gets length 0, as do those that do not occur.

    Args:
        counts: (n,) i64, n <= 256, one at least above 0.
        found: (n,) u8, written.
    """
    order = np.empty(counts.size, np.int64)
    n = 0
    for symbol in range(counts.size):
        found[symbol] = 0
        if counts[symbol] > 0:
            at = n
            while at > 0 and counts[order[at - 1]] > counts[symbol]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = symbol
            n += 1
    weights = np.empty(2 * n, np.int64)
    merged = np.empty(2 * n, np.int64)
    is_symbol = np.empty((HUFFMAN_BITS, 2 * n), np.bool_)
    size = 0
    for level in range(HUFFMAN_BITS):
        packages = size >> 1
        symbol = 0
        package = 0
        size = n + packages
        for i in range(size):
            weight = weights[2 * package] + weights[2 * package + 1] if package < packages else np.int64(0)
            takes = symbol < n and (package == packages or counts[order[symbol]] <= weight)
            is_symbol[level, i] = takes
            merged[i] = counts[order[symbol]] if takes else weight
            symbol += takes
            package += not takes
        weights, merged = merged, weights
    taken = 2 * n - 2
    for level in range(HUFFMAN_BITS - 1, -1, -1):
        symbols = 0
        for i in range(taken):
            symbols += is_symbol[level, i]
        for i in range(symbols):
            found[order[i]] += 1
        taken = 2 * (taken - symbols)


@kernel
def codes(lengths: Array, found: Array) -> None:
    """Each symbol's canonical code, first bit lowest: u32, shifted left by 4, its length in the low 4 bits.

    Args:
        lengths: (n,) u8, of a complete code or of a single symbol.
        found: (n,) u32, written; 0 where there is no code.
    """
    found[:] = 0
    code = U64(0)
    for length in range(1, HUFFMAN_BITS + 1):
        code <<= U64(1)
        for symbol in range(lengths.size):
            if lengths[symbol] == length:
                reversed_code = U64(0)
                for bit in range(length):
                    reversed_code |= (code >> U64(bit) & U64(1)) << U64(length - 1 - bit)
                found[symbol] = U32(reversed_code << U64(4) | U64(length))
                code += U64(1)


@kernel
def table(codes: Array, first: int, extras: Array, values: Array, found: Array) -> int:
    """What the next HUFFMAN_BITS bits begin with; the most bits that a symbol takes.

    Args:
        codes: (n,) u32 of ``codes``, of a complete code; n = 1 is a single symbol without bits.
        first: the symbol of the first of them.
        extras: (symbols,) i64, how many raw bits follow each symbol's code.
        values: (symbols,) i64, below 256: what stands above those bits.
        found: (2**HUFFMAN_BITS,) u32, written: all bits taken, ENTRY_LENGTH, ENTRY_EXTRA and ENTRY_VALUE.
    """
    most = np.int64(0)
    for i in range(codes.size):
        length = np.int64(codes[i] & U32(15))
        if length == 0 and codes.size > 1:
            continue
        extra = extras[first + i]
        entry = (length + extra) | length << ENTRY_LENGTH | extra << ENTRY_EXTRA
        entry |= values[first + i] << ENTRY_VALUE
        for at in range(np.int64(codes[i] >> U32(4)), found.size, 1 << length):
            found[at] = U32(entry)
        most = max(most, length + extra)
    return most
