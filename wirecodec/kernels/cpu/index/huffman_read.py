"""The loops that read the Huffman index codec (formats/spec/index/huffman.md).

``read_gaps`` walks four spans side by side, because each step of one waits for its last. The loops get a copy
of the spans with room behind for one span of the longest codes: whatever the bits are, no load leaves it.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.layout import HUFFMAN_SPAN

__all__ = ["read_gaps", "read_keys"]

U32 = np.uint32
U64 = np.uint64

_WINDOW = 57  # bits that a load at any bit position holds
_LENGTH, _EXTRA, _VALUE = (
    U64(canonical_huffman.ENTRY_LENGTH),
    U64(canonical_huffman.ENTRY_EXTRA),
    U64(canonical_huffman.ENTRY_VALUE),
)


@inline
def _symbol(window: np.uint64, table: Array, mask: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The number that the window begins with, and how many bits it takes."""
    entry = U64(table[window & mask])
    extra = entry >> _EXTRA & U64(63)
    low = window >> (entry >> _LENGTH & U64(63))
    return (entry >> _VALUE << extra) + (low & ((U64(1) << extra) - U64(1))), entry & U64(63)


@inline
def _low(index: np.uint64) -> np.uint32:
    return U32(index & U64(0xFFFFFFFF))


@inline
def _one(
    framed: Array, bit: np.uint64, index: np.uint64, table: Array, out: Array
) -> tuple[np.uint64, np.uint64]:
    """One span from its first bit and the index before it; where it ends, and its last index."""
    mask = canonical_huffman.mask_of(table)
    for i in range(out.size):
        gap, taken = _symbol(canonical_huffman.window(framed, bit), table, mask)
        bit += taken
        index += gap + U64(1)
        out[i] = _low(index)
    return bit, index


@inline
def _four(framed: Array, table: Array, out: Array, ends: Array, lasts: Array, steps: np.int64) -> None:
    """Four full spans, ``steps`` symbols a load; ``ends`` and ``lasts`` as ``read_gaps`` has them."""
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
            gap, taken = _symbol(window0, table, mask)
            window0 >>= taken
            bit0 += taken
            index0 += gap + U64(1)
            out0[i + k] = _low(index0)
            gap, taken = _symbol(window1, table, mask)
            window1 >>= taken
            bit1 += taken
            index1 += gap + U64(1)
            out1[i + k] = _low(index1)
            gap, taken = _symbol(window2, table, mask)
            window2 >>= taken
            bit2 += taken
            index2 += gap + U64(1)
            out2[i + k] = _low(index2)
            gap, taken = _symbol(window3, table, mask)
            window3 >>= taken
            bit3 += taken
            index3 += gap + U64(1)
            out3[i + k] = _low(index3)
    bit0, index0 = _one(framed, bit0, index0, table, out0[whole:])
    bit1, index1 = _one(framed, bit1, index1, table, out1[whole:])
    bit2, index2 = _one(framed, bit2, index2, table, out2[whole:])
    bit3, index3 = _one(framed, bit3, index3, table, out3[whole:])
    ends[0], ends[1], ends[2], ends[3] = bit0, bit1, bit2, bit3
    lasts[0], lasts[1], lasts[2], lasts[3] = index0, index1, index2, index3


@kernel
def read_gaps(framed: Array, table: Array, most: int, ends: Array, lasts: Array, out: Array) -> None:
    """The indices of some spans, all of them full but the last.

    Args:
        framed: u8, the spans with 5 bytes for each index of a span, and 8, behind them.
        table: of ``prefix.table``.
        most: bits that a symbol takes at most.
        ends: (n_spans,) u64, the bit at which each span begins; then the one at which it ends.
        lasts: (n_spans,) u64, one less than each span's base, modulo 2^64; then its last index.
        out: (r,) u32, written.
    """
    span = 0
    while (span + 4) * HUFFMAN_SPAN <= out.size:
        four = out[span * HUFFMAN_SPAN : (span + 4) * HUFFMAN_SPAN]
        if 3 * most <= _WINDOW:
            _four(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 3)
        elif 2 * most <= _WINDOW:
            _four(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 2)
        else:
            _four(framed, table, four, ends[span : span + 4], lasts[span : span + 4], 1)
        span += 4
    while span < ends.size:
        rest = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        ends[span], lasts[span] = _one(framed, ends[span], lasts[span], table, rest)
        span += 1


@kernel
def read_keys(framed: Array, table: Array, width: int, ends: Array, out: Array) -> None:
    """The indices of some spans from the codes of their bytes; arguments as ``read_gaps``."""
    mask = canonical_huffman.mask_of(table)
    for span in range(ends.size):
        bit = ends[span]
        block = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        for i in range(block.size):
            window = canonical_huffman.window(framed, bit)
            key = U64(0)
            for k in range(width):
                byte, taken = _symbol(window, table, mask)
                window >>= taken
                bit += taken
                key |= byte << U64(8 * k)
            block[i] = _low(key)
        ends[span] = bit
