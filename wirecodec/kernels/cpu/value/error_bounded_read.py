"""The decoder of error-bounded (formats/spec/value/error-bounded.md), in the lanes of ``bounded_write``."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.gather import gather
from wirecodec.kernels.cpu.simd.transpose import TILE_SIZE, transpose_to_runs
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    extract_lane,
    load,
    mask_to_bits,
    select,
    splat,
    store,
)
from wirecodec.kernels.cpu.simd.words import low_bits_mask, trailing_zeros
from wirecodec.kernels.cpu.value.error_bounded import numbers_of
from wirecodec.kernels.cpu.value.error_bounded_lanes import (
    DIRECT,
    FEW,
    HALF,
    MANY,
    WIDTH,
    base_of,
    begun,
    bits_after,
    contexts,
    learned,
    least,
    places_of,
    raw_taken,
    refilled,
    sign_taken,
    symbol_taken,
)
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["BEHIND", "COARSE", "PAD", "SLOTS", "read"]

U32 = np.uint32
U64 = np.uint64

ESCAPE = BOUNDED_ESCAPE
SLOTS, COARSE = 4096, 256
"""Slots of a row that are looked up at once, with 32 lanes; and where a search begins instead, with fewer."""
PAD, BEHIND = 256, 32
"""Words before those of a block in memory, more than a step can take; and after them, for whole vectors."""


@inline_without_refcounts
def _deal(tile: Array, places: Array, lanes: int, first: int, count: int, out: Array) -> None:
    """Steps ``first`` …, at most 16, to the lanes' runs."""
    steps, more = out.size // lanes, out.size % lanes
    if lanes == MANY and first + TILE_SIZE <= steps:
        transpose_to_runs(tile, 0, MANY, out, places, 0, first)
        transpose_to_runs(tile, TILE_SIZE, MANY, out, places, TILE_SIZE, first)
        return
    for i in range(count):
        for n in range(lanes if first + i < steps else more):
            out[places[n] + first + i] = tile[i * lanes + n]


@inline_without_refcounts
def _slots(table: Array, row: int, found: Array) -> None:
    """What each of 4096 slots of a row says: symbol · 2^24 + (frequency - 1) · 2^12 + slot - start."""
    for symbol in range(ESCAPE + 1):
        op = table[row * WIDTH + symbol]
        f, start = np.int64(op >> U32(HALF)), row * SLOTS + np.int64(op & U32(SLOTS - 1))
        entry = U32(symbol << 24) | U32(U32(f - 1) << U32(HALF))
        slots = found[start : start + f]
        for i in range(f):
            slots[i] = entry | U32(i)


@inline_without_refcounts
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
    symbol = gather(found, (row << 8) | (slot >> 4))
    op = gather(table, (row << 6) | symbol)
    before = (op >> HALF) + (op & 4095) <= slot
    while mask_to_bits(before):
        symbol = select(before, symbol + 1, symbol)
        op = gather(table, (row << 6) | symbol)
        before = (op >> HALF) + (op & 4095) <= slot
    return (op >> HALF) * (x >> HALF) + slot - (op & 4095), symbol


@inline
def _prepared(row: Any, tables: tuple[Array, Array, Array], whole: bool) -> None:
    """Have these rows written, slots or beginnings, which ``ready`` remembers."""
    table, found, ready = tables
    missing = mask_to_bits(((((row & 0) | ready[0]) >> row) & 1) == 0)
    while missing:
        one = np.int64(extract_lane(row, trailing_zeros(missing)))
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
    places, tile = np.empty(MANY, np.int64), np.empty(TILE_SIZE * MANY + FEW, np.uint32)
    places_of(out.size, lanes, places)
    x, known = load(states, 0, like), begun(like, start)
    zero = U32(numbers[0])
    p = words.size - BEHIND
    steps = -(-out.size // lanes)
    for begin in range(0, steps, TILE_SIZE):
        count = min(TILE_SIZE, steps - begin)
        for i in range(count):
            active = bits_to_mask(low_bits_mask(min(lanes, out.size - (begin + i) * lanes)), like)
            row, shift = contexts(known)
            _prepared(row, tables, whole)
            if whole:
                y, k = symbol_taken(x, row, tables[1])
            else:
                y, k = _symbols(x, row, tables)
            y, p = refilled(y, words, p, active)
            if mask_to_bits(((k | (shift << 5)) >= DIRECT) & active):
                bits = bits_after(k, shift)
                low = least(bits, HALF)
                k = base_of(k, shift)
                y, more = raw_taken(y, low)
                y, p = refilled(y, words, p, active)
                k += more
                if mask_to_bits((bits > HALF) & active):
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
    return p == PAD and not mask_to_bits(x != 65536)


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
