"""The encoder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes.

A block's values are dealt to lanes in runs, so that a value's neighbours are those before it in its lane.
What belongs to one step of all lanes lies side by side, sixteen steps at a time. The encoder goes over the
steps twice: forward for the contexts, which do not depend on what is coded how, and backward for the words.
Vectors have 32 lanes where a block has, and 4 elsewhere, some of them idle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.gather import gather
from wirecodec.kernels.cpu.simd.transpose import TILE_SIZE, transpose_from_runs
from wirecodec.kernels.cpu.simd.vector import bits_to_mask, load, mask_to_bits, select, splat, store
from wirecodec.kernels.cpu.simd.words import low_bits_mask
from wirecodec.kernels.cpu.value.error_bounded import codes_of
from wirecodec.kernels.cpu.value.error_bounded_lanes import (
    DIRECT,
    FEW,
    HALF,
    MANY,
    WIDTH,
    begun,
    bits_after,
    chances,
    contexts,
    learned,
    least,
    places_of,
    pushed,
    raw_pushed,
    symbols,
)
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["TABLES", "walk", "write"]

U32 = np.uint32

ESCAPE = BOUNDED_ESCAPE
TABLES = 4
"""Tables that share the counts of symbols."""
INDEX, SHIFT = 13, 24
"""Where the parts of a record begin, after its sign's: place in the table of frequencies, shift."""


@inline_without_refcounts
def _collect(x: Array, places: Array, lanes: int, first: int, count: int, tile: Array) -> None:
    """Steps ``first`` …, at most 16, from the lanes' runs; 0 for values that there are not."""
    steps, more = x.size // lanes, x.size % lanes
    if lanes == MANY and first + TILE_SIZE <= steps:
        transpose_from_runs(x, places, 0, first, tile, 0, MANY)
        transpose_from_runs(x, places, TILE_SIZE, first, tile, TILE_SIZE, MANY)
        return
    for i in range(count):
        for n in range(lanes):
            there = first + i < steps or n < more
            tile[i * lanes + n] = x[places[n] + first + i] if there else U32(0)


@inline_without_refcounts
def _count(records: Array, first: int, last: int, counts: Array) -> None:
    """In four tables in turn: a symbol soon after itself would wait for its own count to be written."""
    for i in range(first, last):
        counts[((i & (TABLES - 1)) << 11) | np.int64((records[i] >> U32(INDEX)) & U32(2047))] += U32(1)


@inline
def _walk(
    like: Any,
    x: Array,
    lanes: int,
    cells: tuple[int, float, float],
    start: int,
    codes: Array,
    records: Array,
    counts: Array,
) -> None:
    places, tile = np.empty(MANY, np.int64), np.empty(TILE_SIZE * MANY + FEW, np.uint32)
    places_of(x.size, lanes, places)
    tile[:] = U32(0)
    known = begun(like, start)
    unsigned = U32(2 * cells[0])
    steps = -(-x.size // lanes)
    for begin in range(0, steps, TILE_SIZE):
        count = min(TILE_SIZE, steps - begin)
        _collect(x, places, lanes, begin, count, tile)
        for i in range(count):
            at = (begin + i) * lanes
            code = codes_of(load(tile, i * lanes, like), cells)
            store(codes, at, code)
            row, shift = contexts(known)
            c, same = chances(known), (code & 1) == known[5]
            sign = select(same, c - 1, (4095 - c) | 4096)
            sign = select(code >= unsigned, sign, (sign & 0) | 4095)
            symbol = symbols((code >> 1) >> shift)
            store(records, at, (shift << SHIFT) | (row << (INDEX + 6)) | (symbol << INDEX) | sign)
            known = learned(known, code, unsigned)
        if counts.size:
            _count(records, begin * lanes, min((begin + count) * lanes, x.size), counts)


@kernel
def walk(
    x: Array,
    lanes: int,
    cells: tuple[int, float, float],
    start: int,
    codes: Array,
    records: Array,
    counts: Array,
) -> None:
    """The codes and contexts of a block, and how often each symbol occurs in each row.

    Args:
        x: (m,) u32, the bits of float32.
        lanes: how many there are.
        cells: as of ``bounded``.
        start: the half octave that lanes begin with.
        codes: room for m + 32 u32, 2k + sign, written in the order of steps.
        records: the same, written: what is to be coded of each.
        counts: (TABLES · 2048,) u32, row · 64 + symbol in each, added to; or none, and nothing is counted.
    """
    if lanes == MANY:
        _walk(splat(U32(0), MANY), x, lanes, cells, start, codes, records, counts)
    else:
        _walk(splat(U32(0), FEW), x, lanes, cells, start, codes, records, counts)


@inline
def _write(
    like: Any, m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array
) -> int:
    x = (like & 0) | 65536
    p = 0
    for at in range((m - 1) // lanes * lanes, -1, -lanes):
        active = bits_to_mask(low_bits_mask(min(lanes, m - at)), like)
        record = load(records, at, like)
        f = (record & 4095) + 1
        x, p = pushed(x, f, select((record & 4096) != 0, 4096 - f, f & 0), active, words, p)
        index, shift = (record >> INDEX) & 2047, record >> SHIFT
        op = gather(table, index)
        absent = op == 0
        if mask_to_bits(absent):
            index = select(absent, (index & 1984) | ESCAPE, index)
            op = gather(table, index)
        symbol = index & (WIDTH - 1)
        if mask_to_bits((symbol | (shift << 5)) >= DIRECT):
            bits = bits_after(symbol, shift)
            low = least(bits, HALF)
            one = (bits & 0) | 1
            rest = (load(codes, at, like) >> 1) & ((one << bits) - 1)
            if mask_to_bits(bits > HALF):
                x, p = raw_pushed(x, bits - low, rest >> low, active, words, p)
            x, p = raw_pushed(x, low, rest & ((one << low) - 1), active, words, p)
        x, p = pushed(x, op >> HALF, op & 4095, active, words, p)
    store(states, 0, x)
    return p


@kernel
def write(m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array) -> int:
    """The words of a block of m values, last step first; how many.

    Args:
        m: how many values there are.
        lanes: as of ``walk``.
        codes: as ``walk`` wrote them.
        records: the same.
        table: (ROWS · 64,) u32, frequency · 4096 + start, or 0 of what is to be escaped.
        states: (32,) u32, as many as there are lanes written.
        words: room for 4 m + 32 u16, written.
    """
    if lanes == MANY:
        return _write(splat(U32(0), MANY), m, lanes, codes, records, table, states, words)
    return _write(splat(U32(0), FEW), m, lanes, codes, records, table, states, words)
