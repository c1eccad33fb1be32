"""Kernels that read the Huffman index codec (formats/spec/index/huffman.md).

``read_gaps`` decodes four spans in parallel, because each step of one span depends on its previous step. The
loops read a copy of the spans, or of a short section, padded with the bytes of one span of the longest codes.
No load leaves that copy, whatever the bits are.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.cpu.simd.memory import copy_bytes
from wirecodec.kernels.layout import HUFFMAN_BITS, HUFFMAN_KEYS, HUFFMAN_SPAN, HUFFMAN_SYMBOLS

U32 = np.uint32
U64 = np.uint64

_WINDOW = 57  # Bits that a load holds at any bit position.
_HEADER, _MAX_SYMBOL_BYTES, _LOAD_BYTES = 3, 5, 8  # A symbol has at most 12 + 23 bits.
_LENGTH, _EXTRA, _VALUE = (
    U64(canonical_huffman.ENTRY_LENGTH),
    U64(canonical_huffman.ENTRY_EXTRA),
    U64(canonical_huffman.ENTRY_VALUE),
)


@inline
def _symbol(window: np.uint64, table: Array, mask: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Decode the number at the start of a window; return it and its length in bits."""
    entry = U64(table[window & mask])
    extra = entry >> _EXTRA & U64(63)
    low = window >> (entry >> _LENGTH & U64(63))
    return (entry >> _VALUE << extra) + (low & ((U64(1) << extra) - U64(1))), entry & U64(63)


@inline
def _low_half(index: np.uint64) -> np.uint32:
    return U32(index & U64(0xFFFFFFFF))


@inline
def _read_span(
    framed: Array, bit: np.uint64, index: np.uint64, table: Array, out: Array
) -> tuple[np.uint64, np.uint64]:
    """Decode one span after the index before it; return the bit after the span and its last index."""
    mask = canonical_huffman.mask_of(table)
    for i in range(out.size):
        gap, length = _symbol(canonical_huffman.window(framed, bit), table, mask)
        bit += length
        index += gap + U64(1)
        out[i] = _low_half(index)
    return bit, index


@inline
def _read_four_spans(
    framed: Array, table: Array, out: Array, ends: Array, lasts: Array, steps: np.int64
) -> None:
    """Decode four full spans, ``steps`` symbols per load; ``ends`` and ``lasts`` are as in ``read_gaps``."""
    mask = canonical_huffman.mask_of(table)
    bit0, bit1, bit2, bit3 = U64(ends[0]), U64(ends[1]), U64(ends[2]), U64(ends[3])
    index0, index1, index2, index3 = U64(lasts[0]), U64(lasts[1]), U64(lasts[2]), U64(lasts[3])
    out0, out1 = out[:HUFFMAN_SPAN], out[HUFFMAN_SPAN : 2 * HUFFMAN_SPAN]
    out2, out3 = out[2 * HUFFMAN_SPAN : 3 * HUFFMAN_SPAN], out[3 * HUFFMAN_SPAN : 4 * HUFFMAN_SPAN]
    whole = HUFFMAN_SPAN - HUFFMAN_SPAN % steps
    for i in range(0, whole, steps):
        window0, window1 = canonical_huffman.window(framed, bit0), canonical_huffman.window(framed, bit1)
        window2, window3 = canonical_huffman.window(framed, bit2), canonical_huffman.window(framed, bit3)
        for k in range(steps):
            gap, length = _symbol(window0, table, mask)
            window0 >>= length
            bit0 += length
            index0 += gap + U64(1)
            out0[i + k] = _low_half(index0)
            gap, length = _symbol(window1, table, mask)
            window1 >>= length
            bit1 += length
            index1 += gap + U64(1)
            out1[i + k] = _low_half(index1)
            gap, length = _symbol(window2, table, mask)
            window2 >>= length
            bit2 += length
            index2 += gap + U64(1)
            out2[i + k] = _low_half(index2)
            gap, length = _symbol(window3, table, mask)
            window3 >>= length
            bit3 += length
            index3 += gap + U64(1)
            out3[i + k] = _low_half(index3)
    bit0, index0 = _read_span(framed, bit0, index0, table, out0[whole:])
    bit1, index1 = _read_span(framed, bit1, index1, table, out1[whole:])
    bit2, index2 = _read_span(framed, bit2, index2, table, out2[whole:])
    bit3, index3 = _read_span(framed, bit3, index3, table, out3[whole:])
    ends[0], ends[1], ends[2], ends[3] = bit0, bit1, bit2, bit3
    lasts[0], lasts[1], lasts[2], lasts[3] = index0, index1, index2, index3


@kernel
def read_gaps(framed: Array, table: Array, max_bits: int, ends: Array, lasts: Array, out: Array) -> None:
    """Read the indices of consecutive spans; every span but the last is full.

    Args:
        framed: u8, the spans, followed by 5 bytes per index of a span and 8 more.
        table: from ``canonical_huffman.fill_table``.
        max_bits: greatest number of bits of a symbol.
        ends: (n_spans,) u64, the first bit of each span; overwritten with the bit after its last code.
        lasts: (n_spans,) u64, each span's base minus 1, modulo 2^64; overwritten with its last index.
        out: (r,) u32, written.
    """
    span = 0
    while (span + 4) * HUFFMAN_SPAN <= out.size:
        four = out[span * HUFFMAN_SPAN : (span + 4) * HUFFMAN_SPAN]
        if 3 * max_bits <= _WINDOW:
            _read_four_spans(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 3)
        elif 2 * max_bits <= _WINDOW:
            _read_four_spans(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 2)
        else:
            _read_four_spans(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 1)
        span += 4
    while span < ends.size:
        rest = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        ends[span], lasts[span] = _read_span(framed, ends[span], lasts[span], table, rest)
        span += 1


@kernel
def read_keys(framed: Array, table: Array, width: int, ends: Array, out: Array) -> None:
    """Read spans of byte codes, ``width`` bytes per index; the arguments are as in ``read_gaps``."""
    mask = canonical_huffman.mask_of(table)
    for span in range(ends.size):
        bit = ends[span]
        block = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        for i in range(block.size):
            window = canonical_huffman.window(framed, bit)
            key = U64(0)
            for k in range(width):
                byte, length = _symbol(window, table, mask)
                window >>= length
                bit += length
                key |= byte << U64(8 * k)
            block[i] = _low_half(key)
        ends[span] = bit


@kernel
def read_short(section: Array, d: int, out: Array) -> bool:
    """Check and read a section of gap classes that has one span.

    Args:
        section: u8.
        d: elements of the chunk.
        out: (r,) u32, r at most HUFFMAN_SPAN, written; undefined if the result is False.

    Returns:
        False if a check fails, or if the section holds keys.
    """
    length = section.size
    framed = np.zeros(length + _MAX_SYMBOL_BYTES * out.size + _LOAD_BYTES, np.uint8)
    copy_bytes(section, 0, length, framed, 0)  # another thread may change the section
    form, first, more = np.int64(framed[0]), np.int64(framed[1]), np.int64(framed[2])
    at = _HEADER + ((more + 2) >> 1 if more > 0 else 0)
    if length < at or form >= HUFFMAN_KEYS or first + more >= HUFFMAN_SYMBOLS[form]:
        return False
    extras, values = np.empty(more + 1, np.int64), np.empty(more + 1, np.int64)
    for i in range(more + 1):
        extras[i] = max(((first + i) >> form) - 1, 0)
        values[i] = first + i - (extras[i] << form)
    table = np.empty(1 << HUFFMAN_BITS, np.uint32)
    fault, depth, _ = canonical_huffman.read_table(framed[_HEADER:at], more + 1, 0, extras, values, table)
    if fault > 0:
        return False
    bit, last = _read_span(framed, U64(8 * at), ~U64(0), table[: 1 << depth], out)
    end = np.int64((bit + U64(7)) >> U64(3))
    odd = bit & U64(7)
    return last < U64(d) and end == length and (odd == U64(0) or U64(framed[length - 1]) >> odd == U64(0))
