"""Kernels that read a section of the structured index codec (formats/spec/index/structured.md).

Grains are listed in a gap stream, as runs, or in a bitmap. Each kernel fills the support run by run.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding.gap_stream import read, read_block
from wirecodec.kernels.cpu.simd.words import store64, trailing_zeros
from wirecodec.kernels.layout import GAP_BLOCK

U32 = np.uint32
U64 = np.uint64

BAD_COUNT = -4
COMPLEMENT, FIRST, LAST = 1, 2, 4
"""Bits of the argument ``flags``."""

STEP = 8
PAIR = np.uint64(0x100000001)
"""1 in both u32 halves of a word."""


@inline
def _fill(starts: Array, stops: Array, out: Array, at: int) -> int:
    """Write the elements of all runs into ``out`` from position ``at`` on.

    Args:
        starts: (n,) i64, the first element of each run.
        stops: (n,) i64, the element after each run.
        out: (r,) u32, the support, written.
        at: the next position, or BAD_COUNT from an earlier call.

    Returns:
        The position after them, or BAD_COUNT if they do not fit.
    """
    for i in range(starts.size):
        start = starts[i]
        length = stops[i] - start
        capacity = out.size - at
        if at < 0 or length > capacity:
            return BAD_COUNT
        if capacity >= length + STEP:
            # Eight at a time, whatever the length; the next run overwrites the surplus.
            here = U64(start) | U64(start + 1) << U64(32)
            for byte in range(4 * at, 4 * (at + length), 4 * STEP):
                store64(out, byte, here)
                store64(out, byte + 8, here + U64(2) * PAIR)
                store64(out, byte + 16, here + U64(4) * PAIR)
                store64(out, byte + 24, here + U64(6) * PAIR)
                here += U64(8) * PAIR
        else:
            for j in range(length):
                out[at + j] = U32(start + j)
        at += max(0, length)
    return at


@inline
def _fill_first(phase: int, flags: int, starts: Array, stops: Array, out: Array) -> tuple[int, int]:
    """Write the elements before the first whole grain; return the next position and the last run's end."""
    if flags & FIRST == 0:
        return 0, 0
    if flags & COMPLEMENT:
        return 0, phase
    starts[0], stops[0] = 0, phase
    return _fill(starts[:1], stops[:1], out, 0), phase


@inline
def _fill_last(
    begin: int, d: int, flags: int, cursor: int, starts: Array, stops: Array, out: Array, at: int
) -> int:
    """Write the elements from ``begin`` on, after the last whole grain.

    Args:
        begin: the first element after the last whole grain.
        d: elements of the chunk.
        flags: as in ``read_gaps``.
        cursor: end of the last run.
        starts: (n,) i64 scratch, n > 0.
        stops: (n,) i64 scratch, n > 0.
        out: (r,) u32, the support, written.
        at: the next position.

    Returns:
        0 if ``out`` is full, otherwise BAD_COUNT.
    """
    starts[0], stops[0] = begin, begin
    if flags & COMPLEMENT:
        starts[0], stops[0] = cursor, begin if flags & LAST else d
    elif flags & LAST:
        stops[0] = d
    at = _fill(starts[:1], stops[:1], out, at)
    return 0 if at == out.size else BAD_COUNT


@kernel
def read_gaps(
    data: Array,
    stop: int,
    at: int,
    count: int,
    whole: int,
    grain: int,
    phase: int,
    d: int,
    flags: int,
    out: Array,
) -> tuple[int, int]:
    """Read a support whose grains are listed in a gap stream.

    Args:
        data: u8, with at least 16 zero bytes after the stream.
        stop: the bit after the stream.
        at: first bit of the stream.
        count: number of listed grains.
        whole: number of whole grains in the chunk.
        grain: elements per grain.
        phase: elements before the first whole grain.
        d: elements of the chunk.
        flags: bits COMPLEMENT, FIRST and LAST.
        out: (r,) u32, written.

    Returns:
        (0, the bit after the stream), or (a negative error code, undefined).
    """
    if grain == 1 and flags == 0:  # The numbers are the support itself.
        at = read(data, at, stop, whole, out)
        return min(at, 0), at
    block = np.empty(GAP_BLOCK, np.uint32)
    starts, stops = np.empty(GAP_BLOCK, np.int64), np.empty(GAP_BLOCK, np.int64)
    n, cursor = _fill_first(phase, flags, starts, stops, out)
    first = 0
    for start in range(0, count, GAP_BLOCK):
        size = min(GAP_BLOCK, count - start)
        at = read_block(data, at, stop, first, whole, block[:size])
        if at < 0:
            return at, 0
        first = np.int64(block[size - 1]) + 1
        for i in range(size):
            begin = phase + grain * np.int64(block[i])
            # For listed absent grains, the runs are the elements between them.
            starts[i] = cursor if flags & COMPLEMENT else begin
            stops[i] = begin if flags & COMPLEMENT else begin + grain
            cursor = begin + grain
        n = _fill(starts[:size], stops[:size], out, n)
    return _fill_last(phase + grain * whole, d, flags, cursor, starts, stops, out, n), at


@kernel
def read_runs(
    data: Array,
    stop: int,
    at: int,
    absent: Array,
    count: int,
    whole: int,
    grain: int,
    phase: int,
    d: int,
    flags: int,
    out: Array,
) -> tuple[int, int]:
    """Read a support whose grains are listed as runs, of which ``absent`` has been read.

    Args:
        data: u8, with at least 16 zero bytes after the streams.
        stop: the bit after the streams.
        at: first bit of the second stream.
        absent: (n,) u32, the first stream: the count of absent grains before each run.
        count: number of listed grains, at least n.
        whole: number of whole grains in the chunk.
        grain: elements per grain.
        phase: elements before the first whole grain.
        d: elements of the chunk.
        flags: bits COMPLEMENT, FIRST and LAST.
        out: (r,) u32, written.

    Returns:
        As ``read_gaps``.
    """
    block = np.empty(GAP_BLOCK, np.uint32)
    starts, stops = np.empty(GAP_BLOCK, np.int64), np.empty(GAP_BLOCK, np.int64)
    n, cursor = _fill_first(phase, flags, starts, stops, out)
    before = 0  # Grains in the runs so far.
    for start in range(0, absent.size, GAP_BLOCK):
        size = min(GAP_BLOCK, absent.size - start)
        stored = min(size, absent.size - 1 - start)
        if stored > 0:
            at = read_block(data, at, stop, before, count - 1, block[:stored])
            if at < 0:
                return at, 0
        if stored < size:  # The last run's end is not stored: it is the last grain.
            block[stored] = U32(count - 1)
        for i in range(size):
            begin = phase + grain * (np.int64(absent[start + i]) + before)
            after = np.int64(block[i]) + 1
            length = grain * (after - before)
            starts[i] = cursor if flags & COMPLEMENT else begin
            stops[i] = begin if flags & COMPLEMENT else begin + length
            cursor = begin + length
            before = after
        n = _fill(starts[:size], stops[:size], out, n)
    return _fill_last(phase + grain * whole, d, flags, cursor, starts, stops, out, n), at


@kernel
def read_bitmap(words: Array, whole: int, grain: int, phase: int, d: int, flags: int, out: Array) -> int:
    """Read a support whose grains are the set bits of u64 ``words``, all below ``whole``.

    The other arguments are as in ``read_gaps``.

    Returns:
        0 or BAD_COUNT.
    """
    starts, stops = np.empty(64, np.int64), np.empty(64, np.int64)
    n, cursor = _fill_first(phase, flags, starts, stops, out)
    for w in range(words.size):
        word = words[w]
        size = 0
        while word != U64(0):
            begin = phase + grain * ((w << 6) + trailing_zeros(word))
            word &= word - U64(1)
            starts[size] = cursor if flags & COMPLEMENT else begin
            stops[size] = begin if flags & COMPLEMENT else begin + grain
            cursor = begin + grain
            size += 1
        n = _fill(starts[:size], stops[:size], out, n)
    return _fill_last(phase + grain * whole, d, flags, cursor, starts, stops, out, n)
