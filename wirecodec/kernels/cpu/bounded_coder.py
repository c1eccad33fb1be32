"""The entropy coder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes.

A block's values are dealt to lanes in runs, so that a value's neighbours are those before it in its lane.
What belongs to one step of all lanes lies side by side, sixteen steps at a time. The encoder goes over the
steps twice: forward for the contexts, which do not depend on what is coded how, and backward for the words.
Vectors have 32 lanes where a block has, and 4 elsewhere, some of them idle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.bounded import codes_of, numbers_of
from wirecodec.kernels.cpu.bounded_lanes import (
    base_of,
    begun,
    bits_after,
    chances,
    contexts,
    learned,
    least,
    pushed,
    raw_pushed,
    raw_taken,
    refilled,
    sign_taken,
    symbol_taken,
    symbols,
)
from wirecodec.kernels.cpu.jit import borrowing, inline, kernel
from wirecodec.kernels.cpu.taken import gathered
from wirecodec.kernels.cpu.tiles import EDGE, columns_of_runs, runs_of_columns
from wirecodec.kernels.cpu.vector import lane, lanes_of, load, mask_bits, select, splat, store
from wirecodec.kernels.cpu.words import low_ones, trailing_zeros
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["BEHIND", "COARSE", "MANY", "PAD", "SLOTS", "TABLES", "WIDTH", "read", "walk", "write"]

U32 = np.uint32
U64 = np.uint64

ESCAPE, DIRECT, HALF = BOUNDED_ESCAPE, 32, 12
MANY, FEW = 32, 4
"""Lanes of a vector, where a block has 32 lanes and where not."""
WIDTH = 64
"""Elements of a row of the table of frequencies, some of them unused."""
TABLES = 4
"""Tables that share the counts of symbols."""
SLOTS, COARSE = 4096, 256
"""Slots of a row that are looked up at once, with 32 lanes; and where a search begins instead, with fewer."""
PAD, BEHIND = 256, 32
"""Words before those of a block in memory, more than a step can take; and after them, for whole vectors."""
INDEX, SHIFT = 13, 24
"""Where the parts of a record begin, after its sign's: place in the table of frequencies, shift."""


@borrowing
def _starts(m: int, lanes: int, places: Array) -> None:
    """Where each lane's run begins."""
    steps, more = m // lanes, m % lanes
    for n in range(lanes):
        places[n] = n * steps + min(n, more)


@borrowing
def _collect(x: Array, places: Array, lanes: int, first: int, count: int, tile: Array) -> None:
    """Steps ``first`` …, at most 16, from the lanes' runs; 0 for values that there are not."""
    steps, more = x.size // lanes, x.size % lanes
    if lanes == MANY and first + EDGE <= steps:
        columns_of_runs(x, places, 0, first, tile, 0, MANY)
        columns_of_runs(x, places, EDGE, first, tile, EDGE, MANY)
        return
    for i in range(count):
        for n in range(lanes):
            there = first + i < steps or n < more
            tile[i * lanes + n] = x[places[n] + first + i] if there else U32(0)


@borrowing
def _deal(tile: Array, places: Array, lanes: int, first: int, count: int, out: Array) -> None:
    """The inverse of ``_collect``."""
    steps, more = out.size // lanes, out.size % lanes
    if lanes == MANY and first + EDGE <= steps:
        runs_of_columns(tile, 0, MANY, out, places, 0, first)
        runs_of_columns(tile, EDGE, MANY, out, places, EDGE, first)
        return
    for i in range(count):
        for n in range(lanes if first + i < steps else more):
            out[places[n] + first + i] = tile[i * lanes + n]


@borrowing
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
    places, tile = np.empty(MANY, np.int64), np.empty(EDGE * MANY + FEW, np.uint32)
    _starts(x.size, lanes, places)
    tile[:] = U32(0)
    known = begun(like, start)
    unsigned = U32(2 * cells[0])
    steps = -(-x.size // lanes)
    for begin in range(0, steps, EDGE):
        count = min(EDGE, steps - begin)
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
        active = lanes_of(low_ones(min(lanes, m - at)), like)
        record = load(records, at, like)
        f = (record & 4095) + 1
        x, p = pushed(x, f, select((record & 4096) != 0, 4096 - f, f & 0), active, words, p)
        index, shift = (record >> INDEX) & 2047, record >> SHIFT
        op = gathered(table, index)
        absent = op == 0
        if mask_bits(absent):
            index = select(absent, (index & 1984) | ESCAPE, index)
            op = gathered(table, index)
        symbol = index & (WIDTH - 1)
        if mask_bits((symbol | (shift << 5)) >= DIRECT):
            bits = bits_after(symbol, shift)
            low = least(bits, HALF)
            one = (bits & 0) | 1
            rest = (load(codes, at, like) >> 1) & ((one << bits) - 1)
            if mask_bits(bits > HALF):
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


@borrowing
def _slots(table: Array, row: int, found: Array) -> None:
    """What each of 4096 slots of a row says: symbol · 2^24 + (frequency - 1) · 2^12 + slot - start."""
    for symbol in range(ESCAPE + 1):
        op = table[row * WIDTH + symbol]
        f, start = np.int64(op >> U32(HALF)), row * SLOTS + np.int64(op & U32(SLOTS - 1))
        entry = U32(symbol << 24) | U32(U32(f - 1) << U32(HALF))
        slots = found[start : start + f]
        for i in range(f):
            slots[i] = entry | U32(i)


@borrowing
def _beginnings(table: Array, row: int, found: Array) -> None:
    """The symbol that each 16th slot of a row belongs to."""
    symbol, end = -1, 0
    for i in range(COARSE):
        while end <= i * (SLOTS // COARSE):
            symbol += 1
            end += np.int64(table[row * WIDTH + symbol] >> U32(HALF))
        found[row * COARSE + i] = U32(symbol)


@inline
def _symbols(x: Any, row: Any, tables: tuple[Array, Array, Array]) -> Any:
    """As ``symbol_taken``; each symbol is searched for from that of the 16th slot at or before its own."""
    table, found, _ = tables
    slot = x & 4095
    symbol = gathered(found, (row << 8) | (slot >> 4))
    op = gathered(table, (row << 6) | symbol)
    before = (op >> HALF) + (op & 4095) <= slot
    while mask_bits(before):
        symbol = select(before, symbol + 1, symbol)
        op = gathered(table, (row << 6) | symbol)
        before = (op >> HALF) + (op & 4095) <= slot
    return (op >> HALF) * (x >> HALF) + slot - (op & 4095), symbol


@inline
def _prepared(row: Any, tables: tuple[Array, Array, Array], whole: bool) -> None:
    """Have these rows written, slots or beginnings, which ``ready`` remembers."""
    table, found, ready = tables
    missing = mask_bits(((((row & 0) | ready[0]) >> row) & 1) == 0)
    while missing:
        one = np.int64(lane(row, trailing_zeros(missing)))
        if not (ready[0] >> U32(one)) & U32(1):
            if whole:
                _slots(table, one, found)
            else:
                _beginnings(table, one, found)
            ready[0] |= U32(1) << U32(one)
        missing &= U64(missing - U64(1))


@inline
def _read(
    like: Any,
    words: Array,
    lanes: int,
    start: int,
    states: Array,
    tables: tuple[Array, Array, Array],
    numbers: tuple[int, float, float, float, float],
    out: Array,
) -> bool:
    whole = lanes == MANY
    places, tile = np.empty(MANY, np.int64), np.empty(EDGE * MANY + FEW, np.uint32)
    _starts(out.size, lanes, places)
    x, known = load(states, 0, like), begun(like, start)
    zero = U32(numbers[0])
    p = words.size - BEHIND
    steps = -(-out.size // lanes)
    for begin in range(0, steps, EDGE):
        count = min(EDGE, steps - begin)
        for i in range(count):
            active = lanes_of(low_ones(min(lanes, out.size - (begin + i) * lanes)), like)
            row, shift = contexts(known)
            _prepared(row, tables, whole)
            if whole:
                y, k = symbol_taken(x, row, tables[1])
            else:
                y, k = _symbols(x, row, tables)
            y, p = refilled(y, words, p, active)
            if mask_bits(((k | (shift << 5)) >= DIRECT) & active):
                bits = bits_after(k, shift)
                low = least(bits, HALF)
                k = base_of(k, shift)
                y, more = raw_taken(y, low)
                y, p = refilled(y, words, p, active)
                k += more
                if mask_bits((bits > HALF) & active):
                    y, more = raw_taken(y, bits - low)
                    y, p = refilled(y, words, p, active)
                    k += more << HALF
            y, code = sign_taken(known, y, k, zero)
            y, p = refilled(y, words, p, active)
            if p < PAD:
                return False
            x = select(active, y, x)
            store(tile, i * lanes, numbers_of(code, numbers))
            known = learned(known, code, zero << U32(1))
        _deal(tile, places, lanes, begin, count, out)
    return p == PAD and not mask_bits(x != 65536)


@kernel
def read(
    words: Array,
    lanes: int,
    start: int,
    states: Array,
    tables: tuple[Array, Array, Array],
    numbers: tuple[int, float, float, float, float],
    out: Array,
) -> bool:
    """A block's values from its words.

    Args:
        words: PAD of any value, the block's, and BEHIND.
        lanes, start: as of ``walk``.
        states: (32,) u32, each at least 2^16, those beyond the lanes 2^16.
        tables: that of ``write``; room for (ROWS · SLOTS,) u32, or with fewer lanes than 32 (ROWS · COARSE,);
            (1,) u32, 0 at first, for what is in there.
        numbers: as of ``bounded``.
        out: (m,) u32, the bits of float32, written.

    Returns whether all words were taken, no more, and each state is 2^16 at last.
    """
    if lanes == MANY:
        return _read(splat(U32(0), MANY), words, lanes, start, states, tables, numbers, out)
    return _read(splat(U32(0), FEW), words, lanes, start, states, tables, numbers, out)
