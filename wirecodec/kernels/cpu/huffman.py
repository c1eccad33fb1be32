"""The loops of the Huffman index codec (formats/spec/index/huffman.md): count, choose, write, read.

Spans of 4096 indices are written and read without their neighbours; ``read_gaps`` walks four of them side by
side, because each step of one waits for its last. Readers get a copy of the spans with room behind for one
span of the longest codes: whatever the bits are, no load leaves it.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu import prefix
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.words import leading_zeros, load64, store64
from wirecodec.kernels.layout import HUFFMAN_BITS, HUFFMAN_SPAN

__all__ = ["choose", "count_gaps", "count_keys", "read_gaps", "read_keys", "write_gaps", "write_keys"]

U32 = np.uint32
U64 = np.uint64

_FINEST = 3
_WINDOW = 57  # bits that a load at any bit position holds
_LOOKUP = U64((1 << HUFFMAN_BITS) - 1)
_LENGTH, _EXTRA, _VALUE = U64(prefix.ENTRY_LENGTH), U64(prefix.ENTRY_EXTRA), U64(prefix.ENTRY_VALUE)
code_lengths = prefix.lengths


@inline
def _extra(gap: np.uint64, m: np.uint64) -> np.uint64:
    """The bits of a gap below its first one bit and the m bits that follow."""
    return U64(63 - leading_zeros(gap | U64(1) << m)) - m


@inline
def _class(gap: np.uint64, m: np.uint64) -> np.uint64:
    extra = _extra(gap, m)
    return (extra << m) + (gap >> extra)


@kernel
def count_gaps(indices: Array, counts: Array) -> None:
    """How often each of the finest classes occurs, into (176,) i64.

    Four tables, so that equal neighbours do not wait for each other.
    """
    tables = np.zeros((4, counts.size), np.uint32)
    before = U32(0xFFFFFFFF)
    whole = indices.size // 4 * 4
    for i in range(0, whole, 4):
        for k in range(4):
            gap = U64(U32(indices[i + k] - before - U32(1)))
            before = indices[i + k]
            tables[k, _class(gap, U64(_FINEST))] += U32(1)
    for i in range(whole, indices.size):
        gap = U64(U32(indices[i] - before - U32(1)))
        before = indices[i]
        tables[0, _class(gap, U64(_FINEST))] += U32(1)
    for symbol in range(counts.size):
        counts[symbol] = 0
        for k in range(4):
            counts[symbol] += np.int64(tables[k, symbol])


@kernel
def count_keys(indices: Array, width: int, counts: Array) -> None:
    """How often each byte occurs among the ``width`` low ones of the indices, into (256,) i64."""
    counts[:] = 0
    for k in range(width):
        for i in range(indices.size):
            counts[U64(indices[i]) >> U64(8 * k) & U64(255)] += 1


@kernel
def choose(counts: Array, lengths: Array) -> tuple[int, int]:
    """The m that makes the section smallest, and the bits that codes and extra bits take with it.

    Args:
        counts: (176,) i64, of the finest classes.
        lengths: (176,) u8, written: the code's lengths for that m.
    """
    best = 0
    best_bits = np.int64(0)
    least = np.int64(-1)
    coarse = np.empty(counts.size, np.int64)
    trial = np.empty(counts.size, np.uint8)
    for m in range(_FINEST + 1):
        coarse[:] = 0
        for symbol in range(counts.size):
            extra = max(0, (symbol >> _FINEST) - 1)
            gap = U64(symbol - (extra << _FINEST)) << U64(extra)  # the least of its class
            coarse[_class(gap, U64(m))] += counts[symbol]
        code_lengths(coarse, trial)
        bits = np.int64(0)
        first = np.int64(-1)
        last = np.int64(0)
        for symbol in range(counts.size):
            if coarse[symbol] > 0:
                bits += coarse[symbol] * (np.int64(trial[symbol]) + max(0, (symbol >> m) - 1))
                first = symbol if first < 0 else first
                last = symbol
        total = bits + (4 * (last - first + 1) if last > first else 0)
        if least < 0 or total < least:
            least = total
            best = m
            best_bits = bits
            lengths[:] = trial
    return best, best_bits


@inline
def _coded(gap: np.uint64, m: np.uint64, codes: Array) -> tuple[np.uint64, np.uint64]:
    """A gap's code with its extra bits, and how many bits these are together."""
    extra = _extra(gap, m)
    code = U64(codes[(extra << m) + (gap >> extra)])
    length = code & U64(15)
    return code >> U64(4) | (gap & ((U64(1) << extra) - U64(1))) << length, length + extra


@kernel
def write_gaps(indices: Array, m: int, most: int, codes: Array, section: Array, at: int, ends: Array) -> None:
    """All spans, gaps as class codes with extra bits.

    Args:
        indices: (r,) u32, ascending.
        m: the classes' bits after the first one bit.
        most: bits that a gap takes at most.
        codes: of the classes, from ``prefix.codes``.
        section: u8, with 8 bytes more than the spans take.
        at: the first span's first byte.
        ends: (n_spans,) i64, written: the byte after each span.
    """
    before = U32(0xFFFFFFFF)
    for span in range(ends.size):
        block = indices[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        held = U64(0)
        bits = U64(0)
        paired = block.size // 2 * 2 if 2 * most <= _WINDOW else 0
        for i in range(0, paired, 2):
            one, taken = _coded(U64(U32(block[i] - before - U32(1))), U64(m), codes)
            other, more = _coded(U64(U32(block[i + 1] - block[i] - U32(1))), U64(m), codes)
            before = block[i + 1]
            held |= (one | other << taken) << bits
            bits += taken + more
            store64(section, at, held)
            at += np.int64(bits >> U64(3))
            held >>= bits & U64(56)
            bits &= U64(7)
        for i in range(paired, block.size):
            one, taken = _coded(U64(U32(block[i] - before - U32(1))), U64(m), codes)
            before = block[i]
            held |= one << bits
            bits += taken
            store64(section, at, held)
            at += np.int64(bits >> U64(3))
            held >>= bits & U64(56)
            bits &= U64(7)
        at += np.int64(bits > U64(0))
        ends[span] = at


@kernel
def write_keys(indices: Array, width: int, codes: Array, section: Array, at: int, ends: Array) -> None:
    """All spans, indices as the codes of their bytes.

    Args:
        indices: (r,) u32.
        width: bytes of an index, the lowest first.
        codes: of the bytes, from ``prefix.codes``.
        section: u8, with 8 bytes more than the spans take.
        at: the first span's first byte.
        ends: (n_spans,) i64, written: the byte after each span.
    """
    for span in range(ends.size):
        held = U64(0)
        bits = U64(0)
        block = indices[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        for i in range(block.size):
            for k in range(width):
                code = U64(codes[U64(block[i]) >> U64(8 * k) & U64(255)])
                held |= code >> U64(4) << bits
                bits += code & U64(15)
            store64(section, at, held)
            at += np.int64(bits >> U64(3))
            held >>= bits & U64(56)
            bits &= U64(7)
        at += np.int64(bits > U64(0))
        ends[span] = at


@inline
def _window(framed: Array, bit: np.uint64) -> np.uint64:
    """57 bits or more from ``bit`` on."""
    return load64(framed, np.int64(bit >> U64(3))) >> (bit & U64(7))


@inline
def _symbol(window: np.uint64, table: Array) -> tuple[np.uint64, np.uint64]:
    """The number that the window begins with, and how many bits it takes."""
    entry = U64(table[window & _LOOKUP])
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
    for i in range(out.size):
        gap, taken = _symbol(_window(framed, bit), table)
        bit += taken
        index += gap + U64(1)
        out[i] = _low(index)
    return bit, index


@inline
def _four(framed: Array, table: Array, out: Array, ends: Array, lasts: Array, steps: np.int64) -> None:
    """Four full spans, ``steps`` symbols a load; ``ends`` and ``lasts`` as ``read_gaps`` has them."""
    bit0, bit1, bit2, bit3 = U64(ends[0]), U64(ends[1]), U64(ends[2]), U64(ends[3])
    index0, index1, index2, index3 = U64(lasts[0]), U64(lasts[1]), U64(lasts[2]), U64(lasts[3])
    out0, out1 = out[:HUFFMAN_SPAN], out[HUFFMAN_SPAN : 2 * HUFFMAN_SPAN]
    out2, out3 = out[2 * HUFFMAN_SPAN : 3 * HUFFMAN_SPAN], out[3 * HUFFMAN_SPAN : 4 * HUFFMAN_SPAN]
    whole = HUFFMAN_SPAN - HUFFMAN_SPAN % steps
    for i in range(0, whole, steps):
        window0, window1 = _window(framed, bit0), _window(framed, bit1)
        window2, window3 = _window(framed, bit2), _window(framed, bit3)
        for k in range(steps):
            gap, taken = _symbol(window0, table)
            window0 >>= taken
            bit0 += taken
            index0 += gap + U64(1)
            out0[i + k] = _low(index0)
            gap, taken = _symbol(window1, table)
            window1 >>= taken
            bit1 += taken
            index1 += gap + U64(1)
            out1[i + k] = _low(index1)
            gap, taken = _symbol(window2, table)
            window2 >>= taken
            bit2 += taken
            index2 += gap + U64(1)
            out2[i + k] = _low(index2)
            gap, taken = _symbol(window3, table)
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
    for span in range(ends.size):
        bit = ends[span]
        block = out[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        for i in range(block.size):
            window = _window(framed, bit)
            key = U64(0)
            for k in range(width):
                byte, taken = _symbol(window, table)
                window >>= taken
                bit += taken
                key |= byte << U64(8 * k)
            block[i] = _low(key)
        ends[span] = bit
