"""Candidates of ``budget`` for many arrays in one call: samples, and the largest elements.

The results are those of ``select.budget.source``, for float32.
"""

from __future__ import annotations

import math

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.budget_rules import ELEMENTS_PER_LINE, LINE, MAX_SAMPLE_LINES, SAMPLE_LINES
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.select.budget import count_bins, find_smallest_key
from wirecodec.kernels.cpu.select.terms import SWEEP_SLACK
from wirecodec.kernels.cpu.select.topk import find_top, keep, sweep
from wirecodec.kernels.cpu.simd.memory import copy_elements, view_at
from wirecodec.kernels.cpu.threads import next_unit

U64 = np.uint64
SHIFT, BINS = 20, 2048
"""Bits of a float32 below the number of its bin, and bins."""
LARGEST = (1 << 31) - 1
SPREAD = np.uint64(0x9E3779B97F4A7C15)
MARGIN = 6.0
"""Distance of a bound from the wanted rank, in standard errors of a sample of independent elements."""
ROOM = 1.3
"""Memory of a sweep, in elements that are expected."""
POSITIONS, BITS, NUMBER, WANTED, ROW, REPLACES = range(6)
"""Columns of the rows of ``keep_largest``."""


@kernel
def sample(addresses: Array, sizes: Array, like: Array, bins: Array, scales: Array, turns: Array) -> None:
    """Count elements from spread cache lines of each array, or all if they are few.

    Args:
        addresses, sizes: (n,) i64, of float32 arrays, none empty.
        like: an empty u32 array.
        bins: (n, BINS) i64, written: magnitudes above 0.
        scales: (n,) f64, written: elements of the array per element that was counted.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        x = view_at(addresses[unit], sizes[unit], like)
        lines, length = np.int64(1), np.int64(x.size)
        if x.size > 2 * SAMPLE_LINES * LINE:
            lines = min(max(x.size // ELEMENTS_PER_LINE, SAMPLE_LINES), MAX_SAMPLE_LINES)
            length = np.int64(LINE)
        starts = np.zeros(lines, np.int64)
        if lines > 1:
            part = U64(x.size // LINE // lines)
            for i in range(lines):
                number = U64(i)
                starts[i] = np.int64(number * part + ((number * SPREAD) >> U64(33)) % part) * LINE
        row = bins[unit]
        for i in range(row.size):
            row[i] = 0
        count_bins(x, starts, length, SHIFT, row)
        scales[unit] = x.size / (length * lines)
        unit = next_unit(turns, unit)


@inline_without_refcounts
def _find_bin(bins: Array, scale: float, rank: float) -> tuple[int, float]:
    """Return the last bin from which on ``rank`` elements are expected, and how many are; -1 without one."""
    reached = 0.0
    for number in range(bins.size - 1, -1, -1):
        reached += bins[number] * scale
        if reached >= rank and bins[number]:
            return number, reached
    return -1, reached


@inline
def _sweep(x: Array, count: int, bins: Array, scale: float) -> tuple[Array, Array]:
    """Return the positions and the bits of at least ``count`` of the largest elements.

    The bins are of all elements, and their counts are multiplied by ``scale``. They affect only the time.
    """
    margin, roomy = MARGIN * math.sqrt(count * scale) if scale > 1 else 0.0, False
    while True:
        number, expected = _find_bin(bins, scale, count + margin)
        low = np.int64(number) << SHIFT if number >= 0 else np.int64(0)
        capacity = x.size if roomy or number < 0 else min(x.size, np.int64(ROOM * expected))
        found, words = np.empty(capacity + SWEEP_SLACK, np.int32), np.empty(capacity + SWEEP_SLACK, x.dtype)
        n = sweep(x, low, found, words)
        if n >= count:
            return found[:n], words[:n]
        if n < 0:
            roomy = True
        else:
            margin = 4 * margin + count


@kernel
def keep_largest(
    rows: Array,
    bins: Array,
    scales: Array,
    cuts: Array,
    like: Array,
    like_positions: Array,
    places: Array,
    words: Array,
    smallest: Array,
    nonzero: Array,
    turns: Array,
) -> None:
    """Keep the largest elements of each array; the first of ties go first.

    Args:
        rows: (n, 6) i64: address of the positions, or 0 if they are 0, 1, 2, ...; address of the bits; number
            of elements; number to keep, above 0; row in ``bins``; 1 if its counts are to be replaced.
        bins, scales: (m, BINS) i64 and (m,) f64, counts of magnitudes, and their factors. They become those
            of ``Histogram.with_largest``, if they are to be replaced.
        cuts: (n + 1,) i64, the place of each array's elements in the output.
        like, like_positions: empty arrays, u32 and i32.
        places, words: i32 and u32, written: positions, ascending, and bits.
        smallest: (n,) i64, written: the smallest key of those that are kept.
        nonzero: (n,) i64, written: how many of them are not 0.
        turns: counters of ``next_unit``; a unit is an array.
    """
    exact = np.empty(BINS, np.int64)
    first = np.zeros(1, np.int64)
    unit = next_unit(turns, -1)
    while unit >= 0:
        k, number, row = rows[unit, WANTED], rows[unit, NUMBER], rows[unit, ROW]
        x = view_at(rows[unit, BITS], number, like)
        out, kept = places[cuts[unit] : cuts[unit + 1]], words[cuts[unit] : cuts[unit + 1]]
        found, swept = out, x
        if rows[unit, POSITIONS] != 0:
            found = view_at(rows[unit, POSITIONS], number, like_positions)
        elif k < number:
            found, swept = _sweep(x, k, bins[row], scales[row])
        for i in range(BINS):
            exact[i] = 0
        count_bins(swept, first, swept.size, SHIFT, exact)
        if k < swept.size:
            bin_number, reached = _find_bin(exact, 1.0, np.float64(k))
            low = np.int64(bin_number) << SHIFT if bin_number >= 0 else np.int64(0)
            high = min(low + (np.int64(1) << SHIFT), LARGEST) if bin_number >= 0 else LARGEST
            threshold, ties = find_top(swept, k, low, high)
            keep(found, swept, threshold, ties, 0, out, kept)
            for i in range(bin_number):
                exact[i] = 0
            if bin_number >= 0:
                exact[bin_number] -= np.int64(reached) - k
        else:
            copy_elements(swept, 0, k, kept, 0)
            if rows[unit, POSITIONS] != 0 or k < number:
                copy_elements(found, 0, k, out, 0)
            else:
                for i in range(k):
                    out[i] = i
        smallest[unit] = find_smallest_key(kept)
        nonzero[unit] = exact.sum()
        if rows[unit, REPLACES] != 0 and nonzero[unit] > 0:
            _replace_largest(bins[row], scales[row], exact)
            scales[row] = 1.0
        unit = next_unit(turns, unit)


@inline_without_refcounts
def _replace_largest(bins: Array, scale: float, exact: Array) -> None:
    """Replace the counts of the largest elements, which are all counted, as ``with_largest`` does."""
    for i in range(BINS):
        bins[i] = np.int64(np.rint(bins[i] * scale))
    least = 0
    while exact[least] == 0:
        least += 1
    bins[least] = max(bins[least], exact[least])
    copy_elements(exact, least + 1, BINS - least - 1, bins, least + 1)
