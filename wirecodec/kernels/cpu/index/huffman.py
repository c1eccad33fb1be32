"""Kernels that write the Huffman index codec (formats/spec/index/huffman.md): count, choose, write."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.words import leading_zeros, store64
from wirecodec.kernels.layout import HUFFMAN_SPAN

U32 = np.uint32
U64 = np.uint64

FINEST = 3
_WINDOW = 57  # Bits that a store holds at any bit position.
build_lengths = canonical_huffman.build_lengths


@inline
def extra_bits(gap: np.uint64, m: np.uint64) -> np.uint64:
    """Return the number of bits of a gap below its first one bit and the m bits after it."""
    return U64(63 - leading_zeros(gap | U64(1) << m)) - m


@inline
def class_of(gap: np.uint64, m: np.uint64) -> np.uint64:
    """Return a gap's class: its first one bit and the m bits after it, and how many follow."""
    extra = extra_bits(gap, m)
    return (extra << m) + (gap >> extra)


@inline
def smallest_gap(symbol: int) -> np.uint64:
    """Return the smallest gap of one of the finest classes."""
    extra = max(0, (symbol >> FINEST) - 1)
    return U64(symbol - (extra << FINEST)) << U64(extra)


@kernel
def count_gaps(indices: Array, counts: Array) -> None:
    """Count the gaps in each of the finest classes, into (176,) i64.

    Four tables are used in turn, so that equal neighbours do not depend on each other.
    """
    tables = np.zeros((4, counts.size), np.uint32)
    before = U32(0xFFFFFFFF)
    whole = indices.size // 4 * 4
    for i in range(0, whole, 4):
        for k in range(4):
            gap = U64(U32(indices[i + k] - before - U32(1)))
            before = indices[i + k]
            tables[k, class_of(gap, U64(FINEST))] += U32(1)
    for i in range(whole, indices.size):
        gap = U64(U32(indices[i] - before - U32(1)))
        before = indices[i]
        tables[0, class_of(gap, U64(FINEST))] += U32(1)
    for symbol in range(counts.size):
        counts[symbol] = 0
        for k in range(4):
            counts[symbol] += np.int64(tables[k, symbol])


@kernel
def count_keys(indices: Array, width: int, counts: Array) -> None:
    """Count the values of the ``width`` low bytes of the indices, into (256,) i64."""
    counts[:] = 0
    for k in range(width):
        for i in range(indices.size):
            counts[U64(indices[i]) >> U64(8 * k) & U64(255)] += 1


@kernel
def choose(counts: Array, lengths: Array) -> tuple[int, int]:
    """Choose the m, 0 to 3, that makes the section smallest.

    Args:
        counts: (176,) i64 gaps in each of the finest classes.
        lengths: (176,) u8, written: the code lengths for that m.

    Returns:
        (m, the number of bits of all codes and extra bits).
    """
    best = 0
    best_bits = np.int64(0)
    best_total = np.int64(-1)
    coarse = np.empty(counts.size, np.int64)
    trial = np.empty(counts.size, np.uint8)
    for m in range(FINEST + 1):
        coarse[:] = 0
        for symbol in range(counts.size):
            coarse[class_of(smallest_gap(symbol), U64(m))] += counts[symbol]
        build_lengths(coarse, trial)
        bits = np.int64(0)
        first = np.int64(-1)
        last = np.int64(0)
        for symbol in range(counts.size):
            if coarse[symbol] > 0:
                bits += coarse[symbol] * (np.int64(trial[symbol]) + max(0, (symbol >> m) - 1))
                first = symbol if first < 0 else first
                last = symbol
        total = bits + (4 * (last - first + 1) if last > first else 0)
        if best_total < 0 or total < best_total:
            best_total = total
            best = m
            best_bits = bits
            copy_elements(trial, 0, trial.size, lengths, 0)
    return best, best_bits


@inline
def _encode_gap(gap: np.uint64, m: np.uint64, codes: Array) -> tuple[np.uint64, np.uint64]:
    """Return a gap's code followed by its extra bits, and their number."""
    extra = extra_bits(gap, m)
    code = U64(codes[(extra << m) + (gap >> extra)])
    length = code & U64(15)
    return code >> U64(4) | (gap & ((U64(1) << extra) - U64(1))) << length, length + extra


@kernel
def write_gaps(
    indices: Array, m: int, max_bits: int, codes: Array, section: Array, at: int, ends: Array
) -> None:
    """Write all spans: gaps as class codes with extra bits.

    Args:
        indices: (r,) u32, ascending.
        m: bits after the first one bit that a class includes.
        max_bits: greatest number of bits of a gap.
        codes: u32 per class, from ``canonical_huffman.assign_codes``.
        section: u8, 8 bytes longer than the spans.
        at: first byte of the first span.
        ends: (n_spans,) i64, written: the byte after each span.
    """
    before = U32(0xFFFFFFFF)
    for span in range(ends.size):
        block = indices[span * HUFFMAN_SPAN : (span + 1) * HUFFMAN_SPAN]
        held = U64(0)
        bits = U64(0)
        paired = block.size // 2 * 2 if 2 * max_bits <= _WINDOW else 0
        for i in range(0, paired, 2):
            one, length = _encode_gap(U64(U32(block[i] - before - U32(1))), U64(m), codes)
            other, more = _encode_gap(U64(U32(block[i + 1] - block[i] - U32(1))), U64(m), codes)
            before = block[i + 1]
            held |= (one | other << length) << bits
            bits += length + more
            store64(section, at, held)
            at += np.int64(bits >> U64(3))
            held >>= bits & U64(56)
            bits &= U64(7)
        for i in range(paired, block.size):
            one, length = _encode_gap(U64(U32(block[i] - before - U32(1))), U64(m), codes)
            before = block[i]
            held |= one << bits
            bits += length
            store64(section, at, held)
            at += np.int64(bits >> U64(3))
            held >>= bits & U64(56)
            bits &= U64(7)
        at += np.int64(bits > U64(0))
        ends[span] = at


@kernel
def write_keys(indices: Array, width: int, codes: Array, section: Array, at: int, ends: Array) -> None:
    """Write all spans: indices as the codes of their bytes, lowest first.

    Args:
        indices: (r,) u32, or u8 with ``width`` 1.
        width: bytes per index.
        codes: (256,) u32, from ``canonical_huffman.assign_codes``.
        section: u8, 8 bytes longer than the spans.
        at: first byte of the first span.
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
