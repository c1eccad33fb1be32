"""Huffman-coded bytes in independent spans (formats/spec/value/sketchml.md).

Four spans are decoded in parallel, because each step of one span depends on its previous step. The loops read
a copy of the spans, padded with the bytes of one span of the longest codes. No load leaves that copy,
whatever the bits are.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.layout import HUFFMAN_SPAN

U8 = np.uint8
U64 = np.uint64

_CODES_PER_WINDOW = 4  # A window has 57 bits, a code at most 12.
_VALUE = U64(canonical_huffman.ENTRY_VALUE)

BAD_END, BAD_PADDING = 1, 2
"""Error codes of ``first_fault``."""


@inline
def _read_span(framed: Array, bit: np.uint64, table: Array, out: Array) -> np.uint64:
    """Decode one span from its first bit, and return the bit after it."""
    mask = canonical_huffman.mask_of(table)
    for i in range(out.size):
        entry = U64(table[canonical_huffman.window(framed, bit) & mask])
        bit += entry & U64(63)
        out[i] = U8(entry >> _VALUE)
    return bit


@inline
def _read_four_spans(framed: Array, table: Array, out: Array, ends: Array) -> None:
    """Decode four full spans; ``ends`` is as in ``read_bytes``."""
    mask = canonical_huffman.mask_of(table)
    bit0, bit1, bit2, bit3 = U64(ends[0]), U64(ends[1]), U64(ends[2]), U64(ends[3])
    out0, out1 = out[:HUFFMAN_SPAN], out[HUFFMAN_SPAN : 2 * HUFFMAN_SPAN]
    out2, out3 = out[2 * HUFFMAN_SPAN : 3 * HUFFMAN_SPAN], out[3 * HUFFMAN_SPAN : 4 * HUFFMAN_SPAN]
    for i in range(0, HUFFMAN_SPAN, _CODES_PER_WINDOW):
        window0, window1 = canonical_huffman.window(framed, bit0), canonical_huffman.window(framed, bit1)
        window2, window3 = canonical_huffman.window(framed, bit2), canonical_huffman.window(framed, bit3)
        for k in range(_CODES_PER_WINDOW):
            entry = U64(table[window0 & mask])
            window0 >>= entry & U64(63)
            bit0 += entry & U64(63)
            out0[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window1 & mask])
            window1 >>= entry & U64(63)
            bit1 += entry & U64(63)
            out1[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window2 & mask])
            window2 >>= entry & U64(63)
            bit2 += entry & U64(63)
            out2[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window3 & mask])
            window3 >>= entry & U64(63)
            bit3 += entry & U64(63)
            out3[i + k] = U8(entry >> _VALUE)
    ends[0], ends[1], ends[2], ends[3] = bit0, bit1, bit2, bit3


@kernel
def read_bytes(framed: Array, table: Array, ends: Array, out: Array) -> None:
    """Decode the bytes of all spans; every span but the last is full.

    Args:
        framed: u8, the spans, followed by 2 bytes per code of a span and 8 more.
        table: from ``canonical_huffman.fill_table``, without extra bits.
        ends: (n_spans,) u64, the first bit of each span; overwritten with the bit after its last code.
        out: (r,) u8, written.
    """
    span = 0
    while (span + 4) * HUFFMAN_SPAN <= out.size:
        four = out[span * HUFFMAN_SPAN : (span + 4) * HUFFMAN_SPAN]
        _read_four_spans(framed, table, four, ends[span : span + 4])
        span += 4
    while span < ends.size:
        rest = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        ends[span] = _read_span(framed, ends[span], table, rest)
        span += 1


@kernel
def first_fault(framed: Array, starts: Array, ends: Array) -> tuple[int, int]:
    """Find the first span that does not end in its last byte or has a bit set after its last code.

    Args:
        framed: as in ``read_bytes``.
        starts: (n + 1,) i64, the first byte of each span, and the byte after the last.
        ends: (n,) u64, the bit after each span's last code.

    Returns:
        (the span's number, BAD_END or BAD_PADDING), or (n, 0) if there is none.
    """
    for span in range(ends.size):
        at, bit = np.int64(ends[span] >> U64(3)), ends[span] & U64(7)
        if at + np.int64(bit > U64(0)) != starts[span + 1]:
            return span, BAD_END
        if bit > U64(0) and U64(framed[at]) >> bit:
            return span, BAD_PADDING
    return ends.size, 0
