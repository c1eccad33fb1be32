"""Encoder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes.

Each lane codes a run of consecutive values, so a value's context is its predecessors. The values of one step
of all lanes are stored contiguously, sixteen steps at a time. A forward pass computes the contexts, which do
not depend on the frequencies. A backward pass writes the words. Vectors have 32 lanes for blocks of 32 lanes;
otherwise they have 4, some of them idle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.gather import gather
from wirecodec.kernels.cpu.simd.transpose import TILE_SIZE, transpose_from_runs
from wirecodec.kernels.cpu.simd.vector import bits_to_mask, load, mask_to_bits, select, splat, store
from wirecodec.kernels.cpu.simd.words import low_bits_mask
from wirecodec.kernels.cpu.value.error_bounded import quantise
from wirecodec.kernels.cpu.value.error_bounded_lanes import (
    DIRECT_SYMBOLS,
    MAX_LANES,
    PRECISION,
    ROW_STRIDE,
    SMALL_VECTOR,
    count_raw_bits,
    find_contexts,
    find_run_starts,
    find_sign_frequencies,
    find_symbols,
    limit,
    push_raw_bits,
    push_symbol,
    start_model,
    update_model,
)
from wirecodec.kernels.layout import BOUNDED_ESCAPE

U32 = np.uint32

ESCAPE = BOUNDED_ESCAPE
"""Symbol of an escape."""
COUNTERS = 2048
"""Elements of a count table: 64 per row."""
COUNT_TABLES = 4
"""Number of count tables; using them in turn avoids waiting for a count's last update."""
INDEX_BIT, SHIFT_BIT = 13, 24
"""Lowest bit of a record's index into the frequency table, and of its shift; the sign is below."""


@inline_without_refcounts
def _gather_tile(x: Array, places: Array, lanes: int, first: int, count: int, tile: Array) -> None:
    """Copy up to 16 steps, beginning with ``first``, from the lanes' runs; absent values are 0."""
    steps, more = x.size // lanes, x.size % lanes
    if lanes == MAX_LANES and first + TILE_SIZE <= steps:
        transpose_from_runs(x, places, 0, first, tile, 0, MAX_LANES)
        transpose_from_runs(x, places, TILE_SIZE, first, tile, TILE_SIZE, MAX_LANES)
        return
    for i in range(count):
        for n in range(lanes):
            present = first + i < steps or n < more
            tile[i * lanes + n] = x[places[n] + first + i] if present else U32(0)


@inline_without_refcounts
def _count_symbols(records: Array, first: int, last: int, counts: Array) -> None:
    """Count symbols in four tables in turn, because repeated symbols would wait for their own last update."""
    for i in range(first, last):
        counts[((i & (COUNT_TABLES - 1)) << 11) | np.int64((records[i] >> U32(INDEX_BIT)) & U32(2047))] += (
            U32(1)
        )


@inline
def _walk_lanes(
    like: Any,
    x: Array,
    lanes: int,
    quantiser: tuple[int, float, float],
    start: int,
    codes: Array,
    records: Array,
    counts: Array,
) -> None:
    """Compute codes and records with vectors of the shape of ``like``."""
    places, tile = np.empty(MAX_LANES, np.int64), np.empty(TILE_SIZE * MAX_LANES + SMALL_VECTOR, np.uint32)
    find_run_starts(x.size, lanes, places)
    tile[:] = U32(0)
    model = start_model(like, start)
    unsigned = U32(2 * quantiser[0])
    steps = -(-x.size // lanes)
    for begin in range(0, steps, TILE_SIZE):
        count = min(TILE_SIZE, steps - begin)
        _gather_tile(x, places, lanes, begin, count, tile)
        for i in range(count):
            at = (begin + i) * lanes
            code = quantise(load(tile, i * lanes, like), quantiser)
            store(codes, at, code)
            row, shift = find_contexts(model)
            c, same = find_sign_frequencies(model), (code & 1) == model[5]
            sign = select(same, c - 1, (4095 - c) | 4096)
            sign = select(code >= unsigned, sign, (sign & 0) | 4095)
            symbol = find_symbols((code >> 1) >> shift)
            store(
                records,
                at,
                (shift << SHIFT_BIT) | (row << (INDEX_BIT + 6)) | (symbol << INDEX_BIT) | sign,
            )
            model = update_model(model, code, unsigned)
        if counts.size:
            _count_symbols(records, begin * lanes, min((begin + count) * lanes, x.size), counts)


def walk(
    x: Array,
    lanes: int,
    quantiser: tuple[int, float, float],
    start: int,
    codes: Array,
    records: Array,
    counts: Array,
) -> None:
    """Compute a block's codes and contexts, and count each symbol per row.

    Args:
        x: (m,) u32, float32 bits.
        lanes: number of lanes.
        quantiser: as in ``error_bounded``.
        start: number of the half octave with which the lanes' models start.
        codes: (≥ m + 32,) u32, written: 2k + sign, in the order of steps.
        records: (≥ m + 32,) u32, written: index, shift and sign to encode, in the order of steps.
        counts: (COUNT_TABLES · 2048,) u32, incremented at row · 64 + symbol; not used if empty.
    """
    walk_block = _walk_all_lanes if lanes == MAX_LANES else walk_few_lanes
    walk_block(x, lanes, quantiser, start, codes, records, counts)


@kernel
def _walk_all_lanes(
    x: Array, lanes: int, quantiser: Any, start: int, codes: Array, records: Array, counts: Array
) -> None:
    """Apply ``walk`` to a block of 32 lanes."""
    _walk_lanes(splat(U32(0), MAX_LANES), x, MAX_LANES, quantiser, start, codes, records, counts)


@kernel
def walk_few_lanes(
    x: Array, lanes: int, quantiser: Any, start: int, codes: Array, records: Array, counts: Array
) -> None:
    """Apply ``walk`` to a block of fewer lanes."""
    _walk_lanes(splat(U32(0), SMALL_VECTOR), x, lanes, quantiser, start, codes, records, counts)


@inline
def _write_lanes(
    like: Any, m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array
) -> int:
    """Encode a block with vectors of the shape of ``like``."""
    x = (like & 0) | 65536
    p = 0
    for at in range((m - 1) // lanes * lanes, -1, -lanes):
        active = bits_to_mask(low_bits_mask(min(lanes, m - at)), like)
        record = load(records, at, like)
        f = (record & 4095) + 1
        x, p = push_symbol(x, f, select((record & 4096) != 0, 4096 - f, f & 0), active, words, p)
        index, shift = (record >> INDEX_BIT) & 2047, record >> SHIFT_BIT
        op = gather(table, index)
        absent = op == 0
        if mask_to_bits(absent):
            index = select(absent, (index & 1984) | ESCAPE, index)
            op = gather(table, index)
        symbol = index & (ROW_STRIDE - 1)
        if mask_to_bits((symbol | (shift << 5)) >= DIRECT_SYMBOLS):
            bits = count_raw_bits(symbol, shift)
            low = limit(bits, PRECISION)
            one = (bits & 0) | 1
            rest = (load(codes, at, like) >> 1) & ((one << bits) - 1)
            if mask_to_bits(bits > PRECISION):
                x, p = push_raw_bits(x, bits - low, rest >> low, active, words, p)
            x, p = push_raw_bits(x, low, rest & ((one << low) - 1), active, words, p)
        x, p = push_symbol(x, op >> PRECISION, op & 4095, active, words, p)
    store(states, 0, x)
    return p


def write(m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array) -> int:
    """Encode the words of a block, last step first, and return their number.

    Args:
        m: number of values.
        lanes: number of lanes.
        codes, records: from ``walk``.
        table: (ROWS · 64,) u32, frequency · 4096 + start, or 0 for a symbol to escape.
        states: (32,) u32, written: the final states of the lanes.
        words: (≥ 4 m + 32,) u16, written.
    """
    write_block = _write_all_lanes if lanes == MAX_LANES else write_few_lanes
    count: int = write_block(m, lanes, codes, records, table, states, words)
    return count


@kernel
def _write_all_lanes(
    m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array
) -> int:
    """Apply ``write`` to a block of 32 lanes."""
    return _write_lanes(splat(U32(0), MAX_LANES), m, MAX_LANES, codes, records, table, states, words)


@kernel
def write_few_lanes(
    m: int, lanes: int, codes: Array, records: Array, table: Array, states: Array, words: Array
) -> int:
    """Apply ``write`` to a block of fewer lanes."""
    return _write_lanes(splat(U32(0), SMALL_VECTOR), m, lanes, codes, records, table, states, words)
