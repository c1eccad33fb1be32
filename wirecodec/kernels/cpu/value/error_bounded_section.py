"""Sections of error-bounded (formats/spec/value/error-bounded.md): frequency tables, and many in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.bounded_step import MAX_START
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.memory import copy_bytes, copy_elements
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits, leading_zeros
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.cpu.value.error_bounded_coder import (
    COARSE_SLOTS,
    COUNT_TABLES,
    COUNTERS,
    HEAD_WORDS,
    MAX_LANES,
    ROW_STRIDE,
    TAIL_WORDS,
    read_few_lanes,
    walk_few_lanes,
    write_few_lanes,
)
from wirecodec.kernels.layout import BOUNDED_ESCAPE, BOUNDED_ROWS

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

ESCAPE, BINS = BOUNDED_ESCAPE, 32
"""Symbol of an escape, and number of bins."""
NO_LEVEL = U8(255)
"""Level of a bin that is left out."""
WIDTHS = np.array([1] * 8 + [2] * 4 + [4] * 4 + [1] * 17, np.int64)
"""Symbols per bin; the last one is the escape."""
POWERS = np.array(
    [
        *(1048576, 1004120, 961548, 920782, 881744, 844361, 808563, 774282),
        *(741455, 710020, 679917, 651091, 623487, 597053, 571740, 547500),
    ],
    np.uint64,
)
"""2^20 · 2^(-i/16), rounded to the nearest integer."""
ESCAPE_COST = 24 << 8
"""Raw bits of an escape, in 1/256 bit."""


@inline_without_refcounts
def _weigh_level(level: U8) -> U64:
    """Compute the weight of a level."""
    return U64(0) if level == NO_LEVEL else POWERS[level & 15] >> U64(level >> 4)


@inline_without_refcounts
def _compute_frequencies(levels: Array, out: Array) -> None:
    """Convert (33,) levels, the escape's last, to (49,) frequencies that sum to 4096."""
    whole = U64(0)
    for b in range(BINS + 1):
        whole += _weigh_level(levels[b])
    left, symbol, first = 4096, 0, 0
    for b in range(BINS + 1):
        weight, width = _weigh_level(levels[b]), U64(WIDTHS[b])
        f = max(U32(1), U32(U64(weight << U64(12)) // U64(whole * width))) if weight else U32(b == BINS)
        for _ in range(WIDTHS[b]):
            out[symbol] = f
            first = symbol if f > out[first] else first
            left -= np.int64(f)
            symbol += 1
    out[first] = U32(np.int64(out[first]) + left)


@inline_without_refcounts
def _find_level(count: U64, total: U64) -> U8:
    """Find the smallest level whose weight is at most count / total · 2^20."""
    if count == U64(0):
        return NO_LEVEL
    level, end = 0, 254
    while level < end:  # weights decrease with the level
        middle = (level + end) >> 1
        if _weigh_level(U8(middle)) * total > count << U64(20):
            level = middle + 1
        else:
            end = middle
    return U8(level)


@inline_without_refcounts
def _estimate_cost(counts: Array, frequencies: Array) -> np.int64:
    """Estimate the size of the symbols in 1/256 bit.

    Logarithms are interpolated linearly between powers of two.
    """
    cost = np.int64(0)
    escapes = np.int64(counts[ESCAPE])
    for symbol in range(ESCAPE + 1):
        n, f = np.int64(counts[symbol]), np.int64(frequencies[symbol])
        if symbol == ESCAPE:
            n = escapes
            cost += n * ESCAPE_COST
        elif f == 0:
            escapes += n
            continue
        octave = 63 - leading_zeros(U64(f))
        cost += n * (3328 - (octave << 8) - ((f << 8) >> octave))
    return cost


@kernel
def fill(levels: Array, mask: int, table: Array) -> None:
    """Fill rows of the frequency table.

    Args:
        levels: (rows, 33) u8.
        mask: one bit per row, set for each row to fill.
        table: (rows, ≥ 49) u32, written: frequency · 4096 + start, or 0 for an absent symbol.
    """
    for row in range(levels.shape[0]):
        if not (mask >> row) & 1:
            continue
        _compute_frequencies(levels[row], table[row])
        start = U32(0)
        for symbol in range(ESCAPE + 1):
            f = table[row, symbol]
            table[row, symbol] = U32(f << U32(12)) + start if f else U32(0)
            start += f


@kernel
def fit(counts: Array, min_symbols: int, levels: Array) -> int:
    """Replace levels by levels fitted to counts if this makes the section smaller.

    Args:
        counts: (rows, ≥ 49) u32.
        min_symbols: minimum count of a row to be fitted, at least 1.
        levels: (rows, 33) u8, the default levels, updated.

    Returns:
        Mask with one bit per row, set if the row was replaced.
    """
    mask = 0
    initial = np.empty(ESCAPE + 1, np.uint32)
    fitted = np.empty(ESCAPE + 1, np.uint32)
    fitted_levels = np.empty(BINS + 1, np.uint8)
    for row in range(counts.shape[0]):
        total = U64(0)
        for symbol in range(ESCAPE + 1):
            total += U64(counts[row, symbol])
        if total < U64(min_symbols):
            continue
        symbol, used = 0, 0
        for b in range(BINS):
            n = U64(0)
            for _ in range(WIDTHS[b]):
                n += U64(counts[row, symbol])
                symbol += 1
            fitted_levels[b] = _find_level(n, total)
            if n > U64(0):
                used = b + 1
        fitted_levels[BINS] = _find_level(U64(counts[row, ESCAPE]), total)
        _compute_frequencies(fitted_levels, fitted)
        _compute_frequencies(levels[row], initial)
        if _estimate_cost(counts[row], fitted) + ((2 + used) << 11) < _estimate_cost(counts[row], initial):
            copy_elements(fitted_levels, 0, BINS + 1, levels[row], 0)
            mask |= 1 << row
    return mask


F32 = np.float32
HEADER, BLOCK_HEADER = 17, 5
"""Bytes before the rows, and before a block's states."""
SOUND, FAULT, LEFT = 0, 1, 2
"""Results of ``read``: the values, a check that failed, or a section that it does not read."""
LEAST_STATE, LEAST_STEP, MOST_PLACE = 65_536, F32(2.0**-126), F32(1)


@kernel
def write(
    bits: Array,
    elements: Array,
    cuts: Array,
    forms: Array,
    numbers: Array,
    starts: Array,
    lanes: Array,
    default_levels: Array,
    default_tables: Array,
    out: Array,
    places: Array,
    lengths: Array,
    turns: Array,
) -> None:
    """Write each tensor's section: its cells, or its elements unchanged if that is no longer.

    Args:
        bits: u32, binary32 bits of all tensors' values.
        elements: u8, the values as they are.
        cuts: (t + 1,) i64, the place of each tensor's values.
        forms, numbers, starts: the cells, as ``error_bounded.find_cells`` writes them.
        lanes: (t,) i64, fewer than 32; a tensor with 0 is left out.
        default_levels: (2, rows, 33) u8, per form.
        default_tables: (2, rows, 64) u32, per form: the frequencies of these levels.
        out: u8, written: the sections.
        places: (t,) i64, of the sections in ``out``, with 1 byte more than the elements take.
        lengths: (t,) i64, written: bytes per section.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    most = np.int64(0)
    for i in range(forms.size):
        most = max(most, cuts[i + 1] - cuts[i] if lanes[i] > 0 else 0)
    codes, records = np.empty(most + MAX_LANES, np.uint32), np.empty(most + MAX_LANES, np.uint32)
    words, states = np.empty(4 * (most + MAX_LANES), np.uint16), np.empty(MAX_LANES, np.uint32)
    counts = np.empty(COUNT_TABLES * COUNTERS, np.uint32)
    levels = np.empty((BOUNDED_ROWS, BINS + 1), np.uint8)
    table = np.empty((BOUNDED_ROWS, ROW_STRIDE), np.uint32)
    itemsize = elements.size // max(1, bits.size)
    unit = next_unit(turns, -1)
    while unit >= 0:
        x = bits[cuts[unit] : cuts[unit + 1]]
        section = out[places[unit] : places[unit] + 1 + x.size * itemsize]
        size = section.size
        if lanes[unit] > 0 and forms[unit] > 0:
            form, cells, start = forms[unit], numbers[unit], starts[unit]
            quantiser = (form - 1, cells[0], F32(1) / cells[1])
            for i in range(counts.size):
                counts[i] = U32(0)
            walk_few_lanes(x, lanes[unit], quantiser, start, codes, records, counts)
            for i in range(COUNTERS):
                counts[i] += counts[COUNTERS + i] + counts[2 * COUNTERS + i] + counts[3 * COUNTERS + i]
            _copy_rows(default_levels[form - 1], default_tables[form - 1], levels, table)
            rows = counts[: BOUNDED_ROWS * ROW_STRIDE].reshape((BOUNDED_ROWS, ROW_STRIDE))
            mask = fit(rows, 1, levels)
            fill(levels, mask, table)
            count = write_few_lanes(x.size, lanes[unit], codes, records, table.reshape(-1), states, words)
            size = HEADER + _measure_rows(levels, mask) + BLOCK_HEADER + 4 * lanes[unit] + 2 * count
            if size < section.size:
                _write_header(section, form, cells, mask)
                at = _write_rows(section, levels, mask)
                section[at] = U8(start)
                _put(section, at + 1, U32(count))
                for lane in range(lanes[unit]):
                    _put(section, at + BLOCK_HEADER + 4 * lane, states[lane])
                at += BLOCK_HEADER + 4 * lanes[unit]
                copy_bytes(words.view(np.uint8), 0, 2 * count, section, at)
        if lanes[unit] > 0 and size >= section.size:
            size = section.size
            section[0] = U8(0)
            copy_bytes(elements, cuts[unit] * itemsize, size - 1, section, 1)
        lengths[unit] = size
        unit = next_unit(turns, unit)


@kernel
def read(
    data: Array,
    firsts: Array,
    lengths: Array,
    cuts: Array,
    lanes: Array,
    most: Any,
    default_levels: Array,
    default_tables: Array,
    out: Array,
    results: Array,
    turns: Array,
) -> None:
    """Check and read each tensor's section, if it has cells.

    Args:
        data: u8, the container.
        firsts: (t,) i64, the first byte of each section.
        lengths: (t,) i64, bytes per section.
        cuts: (t + 1,) i64, the place of each tensor's values; each tensor has at least one.
        lanes: (t,) i64, fewer than 32; a tensor with 0 is left out.
        most: float32, the largest magnitude of the element type.
        default_levels, default_tables: as for ``write``.
        out: u32, written: binary32 bits of the values.
        results: (t,) i64, written: SOUND, FAULT or LEFT.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    longest = np.int64(0)
    for i in range(firsts.size):
        longest = max(longest, lengths[i] if lanes[i] > 0 else 0)
    words = np.zeros(HEAD_WORDS + longest // 2 + TAIL_WORDS, np.uint16)
    levels, states = np.empty((BOUNDED_ROWS, BINS + 1), np.uint8), np.empty(MAX_LANES, np.uint32)
    table = np.empty((BOUNDED_ROWS, ROW_STRIDE), np.uint32)
    slots, ready = np.empty(BOUNDED_ROWS * COARSE_SLOTS, np.uint32), np.zeros(1, np.uint32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        section = data[firsts[unit] : firsts[unit] + lengths[unit]]
        results[unit] = LEFT if section.size > 0 else FAULT
        if lanes[unit] > 0 and section.size > 0 and section[0] > 0:
            results[unit] = FAULT
            cells, count, start = _read_fields(
                section, lanes[unit], most, default_levels, default_tables, levels, table, states, words
            )
            if count >= 0:
                ready[0] = U32(0)
                block = words[: HEAD_WORDS + count + TAIL_WORDS]
                tables = (table.reshape(-1), slots, ready)
                values = out[cuts[unit] : cuts[unit + 1]]
                if read_few_lanes(block, lanes[unit], start, states, tables, cells, values):
                    results[unit] = SOUND
        unit = next_unit(turns, unit)


@inline
def _read_fields(
    section: Array,
    lanes: int,
    most: Any,
    default_levels: Array,
    default_tables: Array,
    levels: Array,
    table: Array,
    states: Array,
    words: Array,
) -> Any:
    """Check a section, and copy its table, states and words.

    Returns the cells as ``reconstruct`` takes them, the number of words, -1 if a check fails, and the start.
    """
    none = (0, F32(0), F32(0), F32(0), most)
    if section.size < HEADER:
        return none, -1, 0
    form, mask = np.int64(section[0]), np.int64(_get(section, 13))
    bits = (_get(section, 1), _get(section, 5), _get(section, 9))
    first, step, place = f32_from_bits(bits[0]), f32_from_bits(bits[1]), f32_from_bits(bits[2])
    if form < 1 or form > 2 or (bits[0] | bits[1] | bits[2]) >> U32(31) or mask >> BOUNDED_ROWS:
        return none, -1, 0
    if not (first <= most and step >= LEAST_STEP and step < np.inf and place <= MOST_PLACE):
        return none, -1, 0
    _copy_rows(default_levels[form - 1], default_tables[form - 1], levels, table)
    at = _read_rows(section, levels, mask)
    if at < 0 or section.size < at + BLOCK_HEADER + 4 * lanes:
        return none, -1, 0
    fill(levels, mask, table)
    start, count = np.int64(section[at]), np.int64(_get(section, at + 1))
    at += BLOCK_HEADER
    for lane in range(MAX_LANES):
        states[lane] = _get(section, at + 4 * lane) if lane < lanes else U32(LEAST_STATE)
        if states[lane] < U32(LEAST_STATE):
            return none, -1, 0
    at += 4 * lanes
    if start > MAX_START or section.size - at != 2 * count:
        return none, -1, 0
    copy_bytes(section, at, 2 * count, words.view(np.uint8), 2 * HEAD_WORDS)
    for i in range(TAIL_WORDS):
        words[HEAD_WORDS + count + i] = 0
    return (form - 1, first, step, place, most), count, start


@inline_without_refcounts
def _read_rows(section: Array, levels: Array, mask: int) -> int:
    """Read the rows that are replaced; return the offset after them, or -1 if a check fails."""
    at = HEADER
    for row in range(BOUNDED_ROWS):
        if (mask >> row) & 1:
            if section.size < at + 2:
                return -1
            used = np.int64(section[at])
            if used > BINS or section.size < at + 2 + used:
                return -1
            levels[row, BINS] = section[at + 1]
            for i in range(BINS):
                levels[row, i] = section[at + 2 + i] if i < used else NO_LEVEL
            at += 2 + used
    return at


@inline
def _copy_rows(default_levels: Array, default_table: Array, levels: Array, table: Array) -> None:
    """Copy a form's default levels and their frequencies."""
    for row in range(BOUNDED_ROWS):
        copy_elements(default_levels[row], 0, BINS + 1, levels[row], 0)
        copy_elements(default_table[row], 0, ROW_STRIDE, table[row], 0)


@inline_without_refcounts
def _get(data: Array, at: int) -> U32:
    """Read four bytes as a word."""
    word = U32(0)
    for i in range(4):
        word |= U32(data[at + i]) << U32(8 * i)
    return word


@inline_without_refcounts
def _put(out: Array, at: int, word: np.uint32) -> None:
    """Write a word as four bytes."""
    for i in range(4):
        out[at + i] = U8((word >> U32(8 * i)) & U32(255))


@inline
def _write_header(section: Array, form: int, cells: Any, mask: int) -> None:
    """Write form, cells and mask."""
    section[0] = U8(form)
    for i in range(3):
        _put(section, 1 + 4 * i, U32(f32_to_bits(cells[i])))
    _put(section, 13, U32(mask))


@inline_without_refcounts
def _count_used(levels: Array, row: int) -> int:
    """Return the number of a row's levels up to the last bin that is present."""
    used = BINS
    while used > 0 and levels[row, used - 1] == NO_LEVEL:
        used -= 1
    return used


@inline_without_refcounts
def _measure_rows(levels: Array, mask: int) -> int:
    """Return the bytes of the rows that are replaced."""
    size = 0
    for row in range(BOUNDED_ROWS):
        if (mask >> row) & 1:
            size += 2 + _count_used(levels, row)
    return size


@inline_without_refcounts
def _write_rows(section: Array, levels: Array, mask: int) -> int:
    """Write the rows that are replaced; return the offset after them."""
    at = HEADER
    for row in range(BOUNDED_ROWS):
        if (mask >> row) & 1:
            used = _count_used(levels, row)
            section[at], section[at + 1] = U8(used), levels[row, BINS]
            for i in range(used):
                section[at + 2 + i] = levels[row, i]
            at += 2 + used
    return at
