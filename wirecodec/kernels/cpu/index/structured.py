"""The loops of the structured index codec (formats/spec/index/structured.md): runs, grains, and back.

Supports are looked at as runs of present elements, [start, stop). What the codec takes off a support
(complement, grain) is arithmetic on its runs, so that only counting and finding them reads every index.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding.gap_stream import read, read_block
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import store64, trailing_zeros
from wirecodec.kernels.layout import GAP_BLOCK

__all__ = [
    "BAD_COUNT",
    "count_breaks",
    "expand",
    "find_runs",
    "granularity",
    "read_bitmap",
    "read_gaps",
    "read_runs",
    "split",
]

U32 = np.uint32
U64 = np.uint64

BAD_COUNT = -4
COMPLEMENT, FIRST, LAST = 1, 2, 4
"""The flags of ``read_gaps`` and the others."""

STEP = 8
PAIR = np.uint64(0x100000001)
"""One more, in both u32 of a word."""


@kernel
def count_breaks(indices: Array) -> int:
    """How many of the (n,) u32 ``indices`` but the first are not the one before plus 1."""
    breaks = 0
    for start in range(1, indices.size, 4096):
        now = indices[start : start + 4096]
        before = indices[start - 1 : start - 1 + now.size]
        count = U32(0)
        for i in range(now.size):
            count = U32(count + U32(U32(now[i] - before[i]) != U32(1)))
        breaks += np.int64(count)
    return breaks


@kernel
def find_runs(indices: Array, starts: Array, stops: Array) -> None:
    """The runs of ``indices`` into u32 arrays that have one place more than there are runs."""
    r = indices.size
    starts[0] = indices[0]
    n = 0
    for i in range(1, r):
        # Written every time, kept where a run ends.
        stops[n] = indices[i - 1] + U32(1)
        starts[n + 1] = indices[i]
        n += U32(indices[i] - indices[i - 1]) != U32(1)
    stops[n] = indices[r - 1] + U32(1)


@kernel
def granularity(starts: Array, stops: Array, d: int) -> tuple[int, int]:
    """The greatest g for which all ends of runs strictly between 0 and d are p + g·i, and p < g.

    (1, 0) where there are fewer than two such ends.
    """
    origin = np.int64(0)
    g = np.int64(0)
    for i in range(2 * starts.size):
        end = np.int64(stops[i >> 1] if i & 1 else starts[i >> 1])
        if end in (0, d):
            continue
        if origin == 0:
            origin = end
            continue
        a = end - origin
        while a:
            g, a = a, g % a
        if g == 1:
            break
    if g <= 1:
        return 1, 0
    return g, origin % g


@kernel
def expand(starts: Array, stops: Array, out: Array) -> None:
    """The numbers of all runs into ``out``, which has that room."""
    n = 0
    for i in range(starts.size):
        first = starts[i]
        run = out[n : n + np.int64(stops[i]) - np.int64(first)]
        for j in range(run.size):
            run[j] = first + U32(j)
        n += run.size


@kernel
def split(starts: Array, stops: Array, absent: Array, present: Array) -> None:
    """Runs as two ascending sequences of u32.

    Args:
        starts: (n,) u32.
        stops: (n,) u32.
        absent: (n,), written: absent numbers before each run.
        present: (n,), written: present numbers before each run's end, less one.
    """
    before = U32(0)
    for i in range(starts.size):
        absent[i] = starts[i] - before
        before += U32(stops[i] - starts[i])
        present[i] = before - U32(1)


@inline
def _fill(starts: Array, stops: Array, out: Array, at: int) -> int:
    """The elements of all runs into ``out`` from place ``at`` on; the place after them, or BAD_COUNT.

    Args:
        starts: i64, first elements.
        stops: i64, the elements after the last.
        out: u32, the support.
        at: how many of it are there; BAD_COUNT stays.
    """
    for i in range(starts.size):
        start = starts[i]
        length = stops[i] - start
        room = out.size - at
        if at < 0 or length > room:
            return BAD_COUNT
        if room >= length + STEP:
            # Eight at a time, whatever the length: the next run writes over what is too much.
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
def _head(phase: int, flags: int, starts: Array, stops: Array, out: Array) -> tuple[int, int]:
    """The elements before the first whole grain: how many indices are there, and where a run stopped."""
    if flags & FIRST == 0:
        return 0, 0
    if flags & COMPLEMENT:
        return 0, phase
    starts[0], stops[0] = 0, phase
    return _fill(starts[:1], stops[:1], out, 0), phase


@inline
def _tail(
    begin: int, d: int, flags: int, cursor: int, starts: Array, stops: Array, out: Array, at: int
) -> int:
    """The elements from ``begin`` on, after the last whole grain; 0 where all of ``out`` is filled.

    Args:
        begin: the first of them.
        d: elements of the chunk.
        flags: as of ``read_gaps``.
        cursor: where the last run stopped.
        starts: room for a run.
        stops: the same.
        out: u32, the support.
        at: how many of it are there.
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
    """``count`` grains in a gap stream; 0 or what is wrong, and the bit after the stream.

    Args:
        data: u8, with 16 zero bytes or more after the stream.
        stop: the bit after the stream.
        at: its first bit.
        count: how many grains are listed.
        whole: how many whole grains there are.
        grain: elements of each.
        phase: elements before the first.
        d: elements of the chunk.
        flags: bits 0 complement, 1 first, 2 last.
        out: (r,) u32, written.
    """
    if grain == 1 and flags == 0:  # the numbers are the support
        at = read(data, at, stop, whole, out)
        return min(at, 0), at
    block = np.empty(GAP_BLOCK, np.uint32)
    starts, stops = np.empty(GAP_BLOCK, np.int64), np.empty(GAP_BLOCK, np.int64)
    n, cursor = _head(phase, flags, starts, stops, out)
    first = 0
    for start in range(0, count, GAP_BLOCK):
        size = min(GAP_BLOCK, count - start)
        at = read_block(data, at, stop, first, whole, block[:size])
        if at < 0:
            return at, 0
        first = np.int64(block[size - 1]) + 1
        for i in range(size):
            begin = phase + grain * np.int64(block[i])
            # Absent grains list what lies between them.
            starts[i] = cursor if flags & COMPLEMENT else begin
            stops[i] = begin if flags & COMPLEMENT else begin + grain
            cursor = begin + grain
        n = _fill(starts[:size], stops[:size], out, n)
    return _tail(phase + grain * whole, d, flags, cursor, starts, stops, out, n), at


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
    """Runs of grains, of which the second gap stream is read here; as ``read_gaps``.

    Args:
        data: u8, with 16 zero bytes or more after the streams.
        stop: the bit after the streams.
        at: first bit of the second.
        absent: (n,) u32, the first stream: absent grains before each run.
        count: how many grains are listed in all; at least n.
        whole: how many whole grains there are.
        grain: elements of each.
        phase: elements before the first.
        d: elements of the chunk.
        flags: bits 0 complement, 1 first, 2 last.
        out: (r,) u32, written.
    """
    block = np.empty(GAP_BLOCK, np.uint32)
    starts, stops = np.empty(GAP_BLOCK, np.int64), np.empty(GAP_BLOCK, np.int64)
    n, cursor = _head(phase, flags, starts, stops, out)
    before = 0  # grains of the runs so far
    for start in range(0, absent.size, GAP_BLOCK):
        size = min(GAP_BLOCK, absent.size - start)
        stored = min(size, absent.size - 1 - start)
        if stored > 0:
            at = read_block(data, at, stop, before, count - 1, block[:stored])
            if at < 0:
                return at, 0
        if stored < size:  # the last run ends with the last grain: its end is not stored
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
    return _tail(phase + grain * whole, d, flags, cursor, starts, stops, out, n), at


@kernel
def read_bitmap(words: Array, whole: int, grain: int, phase: int, d: int, flags: int, out: Array) -> int:
    """Grains as set bits of u64 ``words``, none beyond ``whole``; the rest as ``read_gaps``."""
    starts, stops = np.empty(64, np.int64), np.empty(64, np.int64)
    n, cursor = _head(phase, flags, starts, stops, out)
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
    return _tail(phase + grain * whole, d, flags, cursor, starts, stops, out, n)
