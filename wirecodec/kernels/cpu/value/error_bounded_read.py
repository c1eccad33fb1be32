"""Decoder of error-bounded (formats/spec/value/error-bounded.md), in ``error_bounded_write``'s lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
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
from wirecodec.kernels.cpu.value.error_bounded import reconstruct
from wirecodec.kernels.cpu.value.error_bounded_lanes import (
    DIRECT_SYMBOLS,
    MAX_LANES,
    PRECISION,
    ROW_STRIDE,
    SMALL_VECTOR,
    count_raw_bits,
    find_bases,
    find_contexts,
    find_run_starts,
    limit,
    pop_raw_bits,
    pop_sign,
    pop_symbol,
    refill,
    start_model,
    update_model,
)
from wirecodec.kernels.layout import BOUNDED_ESCAPE

U32 = np.uint32
U64 = np.uint64

ESCAPE = BOUNDED_ESCAPE
SLOTS, COARSE_SLOTS = 4096, 256
"""Slots per row: all of them for 32 lanes; for fewer lanes, every 16th, where a search begins."""
HEAD_WORDS, TAIL_WORDS = 256, 32
"""Padding words before a block's words, more than one step reads, and after them, for whole vectors."""


@inline_without_refcounts
def _scatter_tile(tile: Array, places: Array, lanes: int, first: int, count: int, out: Array) -> None:
    """Copy up to 16 steps, beginning with ``first``, to the lanes' runs."""
    steps, more = out.size // lanes, out.size % lanes
    if lanes == MAX_LANES and first + TILE_SIZE <= steps:
        transpose_to_runs(tile, 0, MAX_LANES, out, places, 0, first)
        transpose_to_runs(tile, TILE_SIZE, MAX_LANES, out, places, TILE_SIZE, first)
        return
    for i in range(count):
        for n in range(lanes if first + i < steps else more):
            out[places[n] + first + i] = tile[i * lanes + n]


@inline_without_refcounts
def _fill_slots(table: Array, row: int, slots: Array) -> None:
    """Fill a row's 4096 slots with symbol · 2^24 + (frequency - 1) · 2^12 + slot - start."""
    for symbol in range(ESCAPE + 1):
        op = table[row * ROW_STRIDE + symbol]
        f, start = np.int64(op >> U32(PRECISION)), row * SLOTS + np.int64(op & U32(SLOTS - 1))
        entry = U32(symbol << 24) | U32(U32(f - 1) << U32(PRECISION))
        row_slots = slots[start : start + f]
        for i in range(f):
            row_slots[i] = entry | U32(i)


@inline_without_refcounts
def _fill_coarse_slots(table: Array, row: int, slots: Array) -> None:
    """Fill in the symbol of every 16th slot of a row."""
    symbol, end = -1, 0
    for i in range(COARSE_SLOTS):
        while end <= i * (SLOTS // COARSE_SLOTS):
            symbol += 1
            end += np.int64(table[row * ROW_STRIDE + symbol] >> U32(PRECISION))
        slots[row * COARSE_SLOTS + i] = U32(symbol)


@inline
def _search_symbols(x: Any, row: Any, tables: tuple[Array, Array, Array]) -> Any:
    """Decode as ``pop_symbol`` does, searching each symbol from the nearest coarse slot below."""
    table, slots, _ = tables
    slot = x & 4095
    symbol = gather(slots, (row << 8) | (slot >> 4))
    op = gather(table, (row << 6) | symbol)
    before = (op >> PRECISION) + (op & 4095) <= slot
    while mask_to_bits(before):
        symbol = select(before, symbol + 1, symbol)
        op = gather(table, (row << 6) | symbol)
        before = (op >> PRECISION) + (op & 4095) <= slot
    return (op >> PRECISION) * (x >> PRECISION) + slot - (op & 4095), symbol


@inline
def _prepare_rows(row: Any, tables: tuple[Array, Array, Array], all_lanes: bool) -> None:
    """Fill the slots of rows at their first use; ``tables[2]`` holds the mask of filled rows."""
    table, slots, ready = tables
    missing = mask_to_bits(((((row & 0) | ready[0]) >> row) & 1) == 0)
    while missing:
        number = np.int64(extract_lane(row, trailing_zeros(missing)))
        if not (ready[0] >> U32(number)) & U32(1):
            if all_lanes:
                _fill_slots(table, number, slots)
            else:
                _fill_coarse_slots(table, number, slots)
            ready[0] |= U32(1) << U32(number)
        missing &= U64(missing - U64(1))


@inline
def _read_lanes(
    like: Any,
    words: Array,
    lanes: int,
    start: int,
    states: Array,
    tables: tuple[Array, Array, Array],
    reconstruction: tuple[int, float, float, float, float],
    out: Array,
) -> bool:
    """Decode a block with vectors of the shape of ``like``."""
    all_lanes = lanes == MAX_LANES
    places, tile = np.empty(MAX_LANES, np.int64), np.empty(TILE_SIZE * MAX_LANES + SMALL_VECTOR, np.uint32)
    find_run_starts(out.size, lanes, places)
    x, model = load(states, 0, like), start_model(like, start)
    zero = U32(reconstruction[0])
    p = words.size - TAIL_WORDS
    steps = -(-out.size // lanes)
    for begin in range(0, steps, TILE_SIZE):
        count = min(TILE_SIZE, steps - begin)
        for i in range(count):
            active = bits_to_mask(low_bits_mask(min(lanes, out.size - (begin + i) * lanes)), like)
            row, shift = find_contexts(model)
            _prepare_rows(row, tables, all_lanes)
            if all_lanes:
                y, k = pop_symbol(x, row, tables[1])
            else:
                y, k = _search_symbols(x, row, tables)
            y, p = refill(y, words, p, active)
            if mask_to_bits(((k | (shift << 5)) >= DIRECT_SYMBOLS) & active):
                bits = count_raw_bits(k, shift)
                low = limit(bits, PRECISION)
                k = find_bases(k, shift)
                y, more = pop_raw_bits(y, low)
                y, p = refill(y, words, p, active)
                k += more
                if mask_to_bits((bits > PRECISION) & active):
                    y, more = pop_raw_bits(y, bits - low)
                    y, p = refill(y, words, p, active)
                    k += more << PRECISION
            y, code = pop_sign(model, y, k, zero)
            y, p = refill(y, words, p, active)
            if p < HEAD_WORDS:
                return False
            x = select(active, y, x)
            store(tile, i * lanes, reconstruct(code, reconstruction))
            model = update_model(model, code, zero << U32(1))
        _scatter_tile(tile, places, lanes, begin, count, out)
    return p == HEAD_WORDS and not mask_to_bits(x != 65536)


def read(
    words: Array,
    lanes: int,
    start: int,
    states: Array,
    tables: tuple[Array, Array, Array],
    reconstruction: tuple[int, float, float, float, float],
    out: Array,
) -> bool:
    """Decode the values of a block.

    Args:
        words: u16: HEAD_WORDS padding words, the block's words, TAIL_WORDS padding words.
        lanes, start: as for ``walk``.
        states: (32,) u32, each at least 2^16; those of unused lanes are 2^16.
        tables: the frequency table of ``write``; a u32 buffer of ROWS · SLOTS elements, or
            ROWS · COARSE_SLOTS for fewer than 32 lanes; (1,) u32, initially 0, the mask of filled rows.
        reconstruction: as in ``error_bounded``.
        out: (m,) u32, written: float32 bits.

    Returns:
        True if exactly the block's words were read and each final state is 2^16.
    """
    read_block = _read_all_lanes if lanes == MAX_LANES else read_few_lanes
    valid: bool = read_block(words, lanes, start, states, tables, reconstruction, out)
    return valid


@kernel
def _read_all_lanes(
    words: Array, lanes: int, start: int, states: Array, tables: Any, reconstruction: Any, out: Array
) -> bool:
    """Apply ``read`` to a block of 32 lanes."""
    return _read_lanes(splat(U32(0), MAX_LANES), words, MAX_LANES, start, states, tables, reconstruction, out)


@kernel
def read_few_lanes(
    words: Array, lanes: int, start: int, states: Array, tables: Any, reconstruction: Any, out: Array
) -> bool:
    """Apply ``read`` to a block of fewer lanes."""
    return _read_lanes(splat(U32(0), SMALL_VECTOR), words, lanes, start, states, tables, reconstruction, out)
