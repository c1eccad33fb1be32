"""Canonical prefix codes (formats/spec/index/huffman.md): lengths, codes, a reader's table.

Integers only, ties decided by the symbols' order, so that one input has one code everywhere.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import load64
from wirecodec.kernels.layout import HUFFMAN_BITS

__all__ = [
    "BAD_CODE",
    "BAD_LENGTH",
    "BAD_PADDING",
    "BAD_WINDOW",
    "ENTRY_EXTRA",
    "ENTRY_LENGTH",
    "ENTRY_VALUE",
    "codes",
    "lengths",
    "mask_of",
    "read_table",
    "table",
    "window",
]

U32 = np.uint32
U64 = np.uint64

ENTRY_LENGTH, ENTRY_EXTRA, ENTRY_VALUE = 8, 16, 24
"""Where the fields of a table's entry begin; all the bits that a symbol takes are the lowest field."""
BAD_PADDING, BAD_LENGTH, BAD_WINDOW, BAD_CODE = 1, 2, 3, 4
"""Faults of code lengths."""


@inline
def mask_of(table: Array) -> np.uint64:
    """The bits of a window that find its entry in a table of 2**depth."""
    return U64(table.size - 1)


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
    counts = np.zeros(HUFFMAN_BITS + 2, np.uint64)
    for symbol in range(lengths.size):
        counts[np.int64(lengths[symbol]) + 1] += U64(1)
    counts[1] = U64(0)  # symbols without a code
    first = U64(0)
    for length in range(1, HUFFMAN_BITS + 1):
        first = (first + counts[length]) << U64(1)
        counts[length] = first
    for symbol in range(lengths.size):
        length = np.int64(lengths[symbol])
        found[symbol] = 0
        if length > 0:
            code = counts[length]
            counts[length] += U64(1)
            reversed_code = U64(0)
            for bit in range(length):
                reversed_code |= (code >> U64(bit) & U64(1)) << U64(length - 1 - bit)
            found[symbol] = U32(reversed_code << U64(4) | U64(length))


@kernel
def table(codes: Array, first: int, extras: Array, values: Array, found: Array) -> int:
    """Fill the reader's table: what the next bits begin with. Returns the most bits that a symbol takes.

    Args:
        codes: (n,) u32 of ``codes``, of a complete code; n = 1 is a single symbol without bits.
        first: the symbol of the first of them.
        extras: (symbols,) i64, how many raw bits follow each symbol's code.
        values: (symbols,) i64, below 256: what stands above those bits.
        found: (2**n,) u32 for codes of at most n bits, written: all bits taken, ENTRY_LENGTH, ENTRY_EXTRA
            and ENTRY_VALUE.
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


@kernel
def read_table(
    packed: Array, n: int, first: int, extras: Array, values: Array, found: Array
) -> tuple[int, int, int]:
    """Check the code lengths of ``n`` symbols and fill the start of ``found`` for them.

    The table is as deep as the longest code, so a code of two symbols fills two entries.

    Args:
        packed: (⌈n/2⌉,) u8, a half byte per length, the lower half first; of a single symbol nothing.
        n: symbols, 1 to 256.
        first: the symbol of the first of them.
        extras: as for ``table``.
        values: as for ``table``.
        found: (2**HUFFMAN_BITS,) u32; the table is its first 2**depth entries.

    Returns (0, depth, the most bits that a symbol takes), or (a fault, its number, 0).
    """
    lengths = np.zeros(n, np.uint8)
    depth = np.int64(0)
    words = np.int64(0)
    if n > 1:
        for symbol in range(n):
            length = np.int64(packed[symbol >> 1] >> np.uint8(4 * (symbol & 1))) & 15
            lengths[symbol] = length
            depth = max(depth, length)
            if 0 < length <= HUFFMAN_BITS:
                words += np.int64(1) << (HUFFMAN_BITS - length)
        if n & 1 and packed[n >> 1] >> np.uint8(4):
            return BAD_PADDING, 0, 0
        if depth > HUFFMAN_BITS:
            return BAD_LENGTH, depth, 0
        if lengths[0] == 0 or lengths[n - 1] == 0:
            return BAD_WINDOW, 0, 0
        if words != 1 << HUFFMAN_BITS:
            return BAD_CODE, words, 0
    symbols = np.empty(n, np.uint32)
    codes(lengths, symbols)
    return 0, depth, table(symbols, first, extras, values, found[: 1 << depth])
