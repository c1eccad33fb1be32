"""Streams of bytes in prefix codes, in spans that decode alone (formats/spec/value/sketchml.md).

Four spans are walked side by side, because each step of one waits for its last. The loops get a copy of the
spans with room behind for one span of the longest codes: whatever the bits are, no load leaves it.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu import prefix
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.layout import HUFFMAN_SPAN

__all__ = ["read_bytes"]

U8 = np.uint8
U64 = np.uint64

_STEPS = 4  # codes of at most 12 bits that the 57 bits of a window hold
_VALUE = U64(prefix.ENTRY_VALUE)


@inline
def _one(framed: Array, bit: np.uint64, table: Array, out: Array) -> np.uint64:
    """One span from its first bit; where it ends."""
    for i in range(out.size):
        entry = U64(table[prefix.window(framed, bit) & prefix.LOOKUP])
        bit += entry & U64(63)
        out[i] = U8(entry >> _VALUE)
    return bit


@inline
def _four(framed: Array, table: Array, out: Array, ends: Array) -> None:
    """Four full spans; ``ends`` as ``read_bytes`` has them."""
    bit0, bit1, bit2, bit3 = U64(ends[0]), U64(ends[1]), U64(ends[2]), U64(ends[3])
    out0, out1 = out[:HUFFMAN_SPAN], out[HUFFMAN_SPAN : 2 * HUFFMAN_SPAN]
    out2, out3 = out[2 * HUFFMAN_SPAN : 3 * HUFFMAN_SPAN], out[3 * HUFFMAN_SPAN : 4 * HUFFMAN_SPAN]
    for i in range(0, HUFFMAN_SPAN, _STEPS):
        window0, window1 = prefix.window(framed, bit0), prefix.window(framed, bit1)
        window2, window3 = prefix.window(framed, bit2), prefix.window(framed, bit3)
        for k in range(_STEPS):
            entry = U64(table[window0 & prefix.LOOKUP])
            window0 >>= entry & U64(63)
            bit0 += entry & U64(63)
            out0[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window1 & prefix.LOOKUP])
            window1 >>= entry & U64(63)
            bit1 += entry & U64(63)
            out1[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window2 & prefix.LOOKUP])
            window2 >>= entry & U64(63)
            bit2 += entry & U64(63)
            out2[i + k] = U8(entry >> _VALUE)
            entry = U64(table[window3 & prefix.LOOKUP])
            window3 >>= entry & U64(63)
            bit3 += entry & U64(63)
            out3[i + k] = U8(entry >> _VALUE)
    ends[0], ends[1], ends[2], ends[3] = bit0, bit1, bit2, bit3


@kernel
def read_bytes(framed: Array, table: Array, ends: Array, out: Array) -> None:
    """The bytes of all spans, all of them full but the last.

    Args:
        framed: u8, the spans with 2 bytes for each code of a span, and 8, behind them.
        table: of ``prefix.table``, without extra bits.
        ends: (n_spans,) u64, the bit at which each span begins; then the one at which it ends.
        out: (r,) u8, written.
    """
    span = 0
    while (span + 4) * HUFFMAN_SPAN <= out.size:
        four = out[span * HUFFMAN_SPAN : (span + 4) * HUFFMAN_SPAN]
        _four(framed, table, four, ends[span : span + 4])
        span += 4
    while span < ends.size:
        rest = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        ends[span] = _one(framed, ends[span], table, rest)
        span += 1
