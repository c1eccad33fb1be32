"""Coder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes, both ways.

Each lane codes a run of consecutive values, so a value's context is its predecessors. The values of one step
of all lanes are stored contiguously, sixteen steps at a time. A forward pass computes the contexts, which do
not depend on the frequencies. A backward pass writes the words. Vectors have 32 lanes for blocks of 32 lanes;
otherwise they have 4, some of them idle. A lane's model is six vectors with one element per lane: two running
means, two probabilities that the sign repeats, a flag if the last two signs were equal, and the last sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.gather import divide_approximately, expand_load, floor_log2, gather
from wirecodec.kernels.cpu.simd.transpose import TILE_SIZE, transpose_from_runs, transpose_to_runs
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    extract_lane,
    load,
    mask_to_bits,
    resize,
    select,
    splat,
    store,
)
from wirecodec.kernels.cpu.simd.words import low_bits_mask, popcount, trailing_zeros
from wirecodec.kernels.cpu.value.error_bounded import quantise, reconstruct
from wirecodec.kernels.layout import BOUNDED_ESCAPE

U32 = np.uint32
ESCAPE, DIRECT_SYMBOLS = BOUNDED_ESCAPE, 32
"""Symbol of an escape, and number of symbols without raw bits."""
MAX_LANES, SMALL_VECTOR = 32, 4
"""Lanes of a vector for blocks of 32 lanes, and for smaller blocks."""
ROW_STRIDE = 64
"""Elements per row of the frequency table; the last ones are unused."""
PRECISION = 12
"""Bits of a frequency, which also limit the raw bits of one rANS step."""


@inline_without_refcounts
def find_run_starts(m: int, lanes: int, places: Array) -> None:
    """Compute the position at which each lane's run of values begins."""
    steps, more = m // lanes, m % lanes
    for n in range(lanes):
        places[n] = n * steps + min(n, more)


@inline
def limit(a: Any, maximum: int) -> Any:
    """Compute the minimum of each lane and a number."""
    return select(a < maximum, a, (a & 0) | maximum)


@inline
def start_model(like: Any, start: int) -> Any:
    """Create the models of a block's lanes from its start, the number of a half octave."""
    mean = (like & 0) | ((U32(2 + (start & 1)) << U32((start >> 1) + 1)) - U32(4))
    chance = (like & 0) | 32768
    return mean, mean, chance, chance, like & 0, like & 0


@inline
def find_contexts(model: Any) -> Any:
    """Compute each lane's row and shift."""
    w = ((model[0] + model[1]) >> 1) + 4
    octave = floor_log2(w)
    row = ((limit(octave, 14) - 2) << 1) + ((w >> (octave - 1)) & 1)
    return row, octave - limit(octave, 13)


@inline
def find_sign_frequencies(model: Any) -> Any:
    """Compute the frequency, out of 4096, at which each lane's sign repeats."""
    q = limit(select(model[4] != 0, model[3], model[2]) >> 4, 4064)
    return select(q < 32, (q & 0) | 32, q)


@inline
def update_model(model: Any, code: Any, unsigned: np.uint32) -> Any:
    """Update the models with the codes; codes below ``unsigned`` have no sign."""
    fast, slow, first, second, repeated, last = model
    k = limit(code >> 1, (1 << 20) - 1)
    fast = fast - ((fast + 7) >> 3) + (k << 7)
    slow = slow - ((slow + 31) >> 5) + (k << 5)
    alike, signed = repeated != 0, code >= unsigned
    sign = code & 1
    q = select(alike, second, first)
    q = select(signed, select(sign == last, q + ((65536 - q) >> 6), q - (q >> 6)), q)
    repeated = select(signed, (sign ^ last) ^ 1, repeated)
    return fast, slow, select(alike, first, q), select(alike, q, second), repeated, select(signed, sign, last)


@inline
def find_symbols(token: Any) -> Any:
    """Map numbers to symbols, without their raw bits."""
    octave = floor_log2(token | 4)
    large = limit((octave << 2) + ((token >> (octave - 2)) & 3) + 12, ESCAPE)
    return select(token < DIRECT_SYMBOLS, token, large)


@inline
def count_raw_bits(symbol: Any, shift: Any) -> Any:
    """Compute the number of raw bits after each symbol."""
    some = select(symbol < DIRECT_SYMBOLS, symbol & 0, (symbol >> 2) - 5)
    return select(symbol == ESCAPE, (symbol & 0) | 24, some + shift)


@inline
def find_bases(symbol: Any, shift: Any) -> Any:
    """Compute the smallest number of each symbol."""
    wide = ((symbol & 3) + 4) << ((symbol >> 2) - 5)
    return select(symbol == ESCAPE, symbol & 0, select(symbol < DIRECT_SYMBOLS, symbol, wide) << shift)


@inline
def push_symbol(x: Any, f: Any, start: Any, active: Any, words: Array, p: int) -> Any:
    """Encode one symbol per active lane (rANS).

    Args:
        x: states.
        f, start: frequency and cumulative frequency of the symbol.
        active: mask of the lanes that encode.
        words: u16, written.
        p: next position in ``words``.

    Returns:
        The new states and the next position.
    """
    need = ((x >> 20) >= f) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    q = divide_approximately(x, f)
    rest, gap = x - q * f, 4096 - f
    y = (q << 12) + rest + start
    y = select(rest < f, y, select(rest >= 1 << 31, y - gap, y + gap))
    return select(active, y, x), p


@inline
def push_raw_bits(x: Any, bits: Any, number: Any, active: Any, words: Array, p: int) -> Any:
    """Encode 0 to 12 equiprobable bits per active lane, as ``push_symbol`` does; divisions become shifts."""
    left = 12 - bits
    need = ((x >> 20) >> left != 0) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    y = ((x >> left) << 12) + (x - ((x >> left) << left)) + (number << left)
    return select(active, y, x), p


@inline
def refill(x: Any, words: Array, p: int, active: Any) -> Any:
    """Read a word into each active state below 2^16, last lane first; return states and words left."""
    low = (x < 65536) & active
    need = mask_to_bits(low)
    p -= popcount(need)
    return select(low, (x << 16) | expand_load(words, p, need, x, 32), x), p


@inline
def pop_symbol(x: Any, row: Any, slots: Array) -> Any:
    """Decode one symbol per lane from the slots, (rows · 4096,); return the new states and the symbols."""
    entry = gather(slots, (row << 12) | (x & 4095))
    return (((entry >> 12) & 4095) + 1) * (x >> 12) + (entry & 4095), entry >> 24


@inline
def pop_raw_bits(x: Any, bits: Any) -> Any:
    """Decode 0 to 12 raw bits per lane; return the new states and the bits."""
    f = ((x & 0) | 4096) >> bits
    slot = x & 4095
    return f * (x >> 12) + (slot & (f - 1)), slot >> (PRECISION - bits)


@inline
def pop_sign(model: Any, x: Any, k: Any, lowest: np.uint32) -> Any:
    """Decode a sign for each lane whose k is at least ``lowest``; return the new states and the codes."""
    c = find_sign_frequencies(model)
    slot = x & 4095
    same = slot < c
    f = select(same, c, 4096 - c)
    after = f * (x >> 12) + select(same, slot, slot - c)
    signed = k >= lowest
    sign = select(signed, select(same, model[5], model[5] ^ 1), x & 0)
    return select(signed, after, x), (k << 1) | sign


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


U64 = np.uint64

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
