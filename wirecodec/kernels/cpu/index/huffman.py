"""The loops that write the Huffman index codec (formats/spec/index/huffman.md): count, choose, write."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros, store64
from wirecodec.kernels.layout import HUFFMAN_SPAN

__all__ = ["choose", "count_gaps", "count_keys", "write_gaps", "write_keys"]

U32 = np.uint32
U64 = np.uint64

_FINEST = 3
_WINDOW = 57  # bits that a store at any bit position holds
code_lengths = canonical_huffman.lengths


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
        indices: (r,) u32, or u8 of one byte each.
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
