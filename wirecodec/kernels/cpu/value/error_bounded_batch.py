"""Sections of error-bounded of many tensors in one call (formats/spec/value/error-bounded.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.words import f32_to_bits
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.cpu.value.error_bounded_lanes import MAX_LANES, ROW_STRIDE
from wirecodec.kernels.cpu.value.error_bounded_tables import BINS, NO_LEVEL, fill, fit
from wirecodec.kernels.cpu.value.error_bounded_write import COUNT_TABLES, walk_few_lanes, write_few_lanes
from wirecodec.kernels.layout import BOUNDED_ROWS

__all__ = ["write"]

F32 = np.float32
U8 = np.uint8
U32 = np.uint32
HEADER, BLOCK_HEADER = 17, 5
"""Bytes before the rows, and before a block's states."""
COUNTERS = 2048


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
        forms, numbers, starts: the cells, as ``error_bounded_search.find_cells`` writes them.
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
            for row in range(BOUNDED_ROWS):
                copy_elements(default_levels[form - 1, row], 0, BINS + 1, levels[row], 0)
                copy_elements(default_tables[form - 1, row], 0, ROW_STRIDE, table[row], 0)
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
                copy_elements(words.view(np.uint8), 0, 2 * count, section, at)
        if lanes[unit] > 0 and size >= section.size:
            size = section.size
            section[0] = U8(0)
            copy_elements(elements, cuts[unit] * itemsize, size - 1, section, 1)
        lengths[unit] = size
        unit = next_unit(turns, unit)


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
