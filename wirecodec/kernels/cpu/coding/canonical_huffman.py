"""Canonical Huffman codes (formats/spec/index/huffman.md): code lengths, codes, the decoding table.

Only integers are used, and ties are broken by symbol order, so that every machine builds the same code.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import load64
from wirecodec.kernels.layout import HUFFMAN_BITS

U32 = np.uint32
U64 = np.uint64

ENTRY_LENGTH, ENTRY_EXTRA, ENTRY_VALUE = 8, 16, 24
"""First bits of a table entry's fields: code length, extra bits, value. Bits 0 to 7 hold the total length."""
BAD_PADDING, BAD_LENGTH, BAD_WINDOW, BAD_CODE = 1, 2, 3, 4
"""Error codes of ``read_table``."""


@inline
def mask_of(table: Array) -> np.uint64:
    """Return the mask that turns a window into an index of ``table``, which has 2**depth entries."""
    return U64(table.size - 1)


@inline
def window(framed: Array, bit: np.uint64) -> np.uint64:
    """Return the next 57 bits or more of a stream, from ``bit`` on."""
    return load64(framed, np.int64(bit >> U64(3))) >> (bit & U64(7))


@kernel
def build_lengths(counts: Array, out: Array) -> None:
    """Compute optimal code lengths of at most HUFFMAN_BITS by package-merge (Larmore and Hirschberg 1990).

    A symbol that does not occur gets length 0. So does the only symbol that occurs.

    Args:
        counts: (n,) i64 occurrences of each symbol, n <= 256, at least one of them positive.
        out: (n,) u8, written.
    """
    order = np.empty(counts.size, np.int64)
    n = 0
    for symbol in range(counts.size):
        out[symbol] = 0
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
            is_leaf = symbol < n and (package == packages or counts[order[symbol]] <= weight)
            is_symbol[level, i] = is_leaf
            merged[i] = counts[order[symbol]] if is_leaf else weight
            symbol += is_leaf
            package += not is_leaf
        weights, merged = merged, weights
    active = 2 * n - 2
    for level in range(HUFFMAN_BITS - 1, -1, -1):
        symbols = 0
        for i in range(active):
            symbols += is_symbol[level, i]
        for i in range(symbols):
            out[order[i]] += 1
        active = 2 * (active - symbols)


@kernel
def assign_codes(lengths: Array, out: Array) -> None:
    """Assign the canonical codes.

    An entry holds the code's length in its low 4 bits and the code above them, first bit lowest.

    Args:
        lengths: (n,) u8, of a complete code or of a single symbol.
        out: (n,) u32, written; 0 for a symbol without a code.
    """
    counts = np.zeros(HUFFMAN_BITS + 2, np.uint64)
    for symbol in range(lengths.size):
        counts[np.int64(lengths[symbol]) + 1] += U64(1)
    counts[1] = U64(0)  # Symbols without a code.
    first = U64(0)
    for length in range(1, HUFFMAN_BITS + 1):
        first = (first + counts[length]) << U64(1)
        counts[length] = first
    for symbol in range(lengths.size):
        length = np.int64(lengths[symbol])
        out[symbol] = 0
        if length > 0:
            code = counts[length]
            counts[length] += U64(1)
            reversed_code = U64(0)
            for bit in range(length):
                reversed_code |= (code >> U64(bit) & U64(1)) << U64(length - 1 - bit)
            out[symbol] = U32(reversed_code << U64(4) | U64(length))


@inline
def fill_table(codes: Array, first: int, extras: Array, values: Array, out: Array) -> int:
    """Fill the decoding table, which maps the next bits of a stream to a symbol.

    Args:
        codes: (n,) u32 from ``assign_codes``, of a complete code; n = 1 is a single symbol without bits.
        first: symbol of ``codes[0]``.
        extras: (symbols,) i64, the number of extra bits after each symbol's code.
        values: (symbols,) i64 below 256, each symbol's value above its extra bits.
        out: (2**depth,) u32 for codes of at most ``depth`` bits, written: the total length, and the fields
            ENTRY_LENGTH, ENTRY_EXTRA and ENTRY_VALUE.

    Returns:
        The greatest number of bits of a symbol, extra bits included.
    """
    max_bits = np.int64(0)
    for i in range(codes.size):
        length = np.int64(codes[i] & U32(15))
        if length == 0 and codes.size > 1:
            continue
        extra = extras[first + i]
        entry = (length + extra) | length << ENTRY_LENGTH | extra << ENTRY_EXTRA
        entry |= values[first + i] << ENTRY_VALUE
        for at in range(np.int64(codes[i] >> U32(4)), out.size, 1 << length):
            out[at] = U32(entry)
        max_bits = max(max_bits, length + extra)
    return max_bits


@kernel
def read_table(
    packed: Array, n: int, first: int, extras: Array, values: Array, out: Array
) -> tuple[int, int, int]:
    """Check the code lengths of ``n`` symbols, and fill the start of ``out`` with their table.

    The table is as deep as the longest code, so a code of two symbols fills two entries.

    Args:
        packed: (⌈n/2⌉,) u8, 4 bits per length, low half first; empty for a single symbol.
        n: number of symbols, 1 to 256.
        first: symbol of the first length.
        extras: as in ``fill_table``.
        values: as in ``fill_table``.
        out: (2**HUFFMAN_BITS,) u32; the table is its first 2**depth entries.

    Returns:
        (0, depth, the greatest number of bits of a symbol), or (BAD_*, the offending number, 0).
    """
    lengths = np.zeros(n, np.uint8)
    depth = np.int64(0)
    code_words = np.int64(0)
    if n > 1:
        for symbol in range(n):
            length = np.int64(packed[symbol >> 1] >> np.uint8(4 * (symbol & 1))) & 15
            lengths[symbol] = length
            depth = max(depth, length)
            if 0 < length <= HUFFMAN_BITS:
                code_words += np.int64(1) << (HUFFMAN_BITS - length)
        if n & 1 and packed[n >> 1] >> np.uint8(4):
            return BAD_PADDING, 0, 0
        if depth > HUFFMAN_BITS:
            return BAD_LENGTH, depth, 0
        if lengths[0] == 0 or lengths[n - 1] == 0:
            return BAD_WINDOW, 0, 0
        if code_words != 1 << HUFFMAN_BITS:
            return BAD_CODE, code_words, 0
    symbols = np.empty(n, np.uint32)
    assign_codes(lengths, symbols)
    return 0, depth, fill_table(symbols, first, extras, values, out[: 1 << depth])
