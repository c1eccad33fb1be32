"""Kernels of the index codec by-class (formats/spec/patch.md): positions on a scale of weights.

Each element of the base has a weight, that of its class. On the scale of the sums of weights, changes are
close to a Poisson process, whatever their classes. So gaps have an exponential distribution. The coder has
it as 16 segments, in which frequencies rise linearly. The decoder adds up weights until it passes the place
of a symbol, and finds the element there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts, kernel
from wirecodec.kernels.cpu.patch.rans import LEAST, has_ended, pull, push, read_states, write_states
from wirecodec.kernels.cpu.simd.gather import look_up
from wirecodec.kernels.cpu.simd.vector import (
    load,
    mask_to_bits,
    prefix_sum,
    ramp,
    reduce_add,
    reduce_max,
    resize,
    select,
    splat,
)
from wirecodec.kernels.cpu.simd.words import popcount
from wirecodec.kernels.layout import PATCH_CLASSES, PATCH_RUN, PATCH_SEGMENTS

U64 = np.uint64
SEGMENT_BITS = U64(24)
SEGMENT = U64(1) << SEGMENT_BITS
SEGMENTS = PATCH_SEGMENTS
"""Segments of the scale in which a symbol can place a change; a further symbol is for all that follow."""
REACH = U64(SEGMENTS) << SEGMENT_BITS
PRECISION = U64(31)

CLASSES, RUN, TILE_RUNS = PATCH_CLASSES, PATCH_RUN, 1024
STRIDE = TILE_RUNS + RUN + 1
"""Elements whose weights are added up at a time, such runs between two looks at the changes, and the sums of
these runs with those beyond, which are compared too."""

FAULT = -1
"""Result for a section that is not valid."""


@kernel
def count_classes(base: Array, shift: int, step: int, counts: Array) -> None:
    """Count the classes of every ``step``-th run of 8 elements: add to (m,) i64 at bits >> shift, of m."""
    s, rows = U64(shift), U64(counts.size - 1)
    # Neighbours are often of one class; an addition to a number that was just written waits for it.
    parts = np.zeros((4, counts.size), np.int64)
    for first in range(0, base.size, 8 * step):
        for i in range(first, min(first + 8, base.size)):
            parts[i & 3, (U64(base[i]) >> s) & rows] += 1
    for row in range(counts.size):
        counts[row] += parts[0, row] + parts[1, row] + parts[2, row] + parts[3, row]


@inline_without_refcounts
def weigh(bits: np.uint64, shift: np.uint64, first: np.uint64, table: Array) -> np.uint64:
    """Return the weight of an element.

    Args:
        bits: of the element.
        shift, first: the class of an element is its row, bits >> shift without the sign, minus ``first``.
        table: (65,) u32, the weight of each class, and the mask of rows.
    """
    row = (bits >> shift) & U64(table[CLASSES])
    return U64(table[min(max(row, first) - first, U64(CLASSES - 1))])


@inline_without_refcounts
def weigh_run(base: Array, at: int, shift: np.uint64, first: np.uint64, table: Array) -> Any:
    """Return the weights of 16 elements, a vector of u32."""
    rows = resize((load(base, at, RUN) >> shift) & U64(table[CLASSES]), 32)
    lowest, last = splat(np.uint32(first), RUN), splat(np.uint32(CLASSES - 1), RUN)
    classes = select(rows > lowest, rows, lowest) - lowest
    return look_up(table, select(classes < last, classes, last))


@inline_without_refcounts
def add_before(base: Array, stop: int, shift: np.uint64, first: np.uint64, table: Array) -> np.uint64:
    """Add up the weights from a run's first element to the one before ``stop``."""
    at = stop & ~(RUN - 1)
    if at + RUN <= base.size:
        weights = weigh_run(base, at, shift, first, table)
        return U64(reduce_add(select(ramp(RUN, 32) < np.uint32(stop - at), weights, weights ^ weights)))
    total = U64(0)
    for i in range(at, stop):
        total += weigh(U64(base[i]), shift, first, table)
    return total


@inline_without_refcounts
def accumulate(
    base: Array,
    start: int,
    stop: int,
    shift: np.uint64,
    first: np.uint64,
    table: Array,
    total: np.uint64,
    sums: Array,
    at: int,
) -> tuple[int, np.uint64]:
    """Write the sum of weights before each run of a tile up to ``stop``; return its runs, and the sum.

    A last run of fewer than 16 elements has no sum of its own.
    """
    runs = min(TILE_RUNS, (stop - start) // RUN)
    for run in range(runs):
        sums[at + run] = total
        total += U64(reduce_add(weigh_run(base, start + RUN * run, shift, first, table)))
    sums[at + runs] = total
    for run in range(at + runs + 1, at + runs + 1 + RUN):
        sums[run] = U64(0xFFFFFFFFFFFFFFFF)
    return runs, total


@kernel
def measure_gaps(
    base: Array, shift: int, first: int, table: Array, starts: Array, indices: Array, gaps: Array, own: Array
) -> None:
    """Compute the sum of weights from the change before, in its lane, to each change, and its weight.

    Args:
        base: (d,) unsigned, bits of the elements.
        shift, first, table: as of ``weigh``.
        starts: (lanes + 1,) i64, the first element of each lane, and d; multiples of 16 but for d.
        indices: (r,) u32, ascending.
        gaps, own: (r,) u64, written.
    """
    s, low = U64(shift), U64(first)
    sums = np.empty(STRIDE, U64)
    total, before, i, lane = U64(0), U64(0), 0, 1
    for start in range(0, base.size, TILE_RUNS * RUN):
        runs, total = accumulate(base, start, base.size, s, low, table, total, sums, 0)
        stop = start + RUN * runs if runs == TILE_RUNS else base.size
        while lane < starts.size - 1 and starts[lane] < stop:
            i, before = measure_until(
                base, start, starts[lane], s, low, table, sums, before, i, indices, gaps, own
            )
            before = sums[(starts[lane] - start) // RUN]
            lane += 1
        i, before = measure_until(base, start, stop, s, low, table, sums, before, i, indices, gaps, own)


@inline_without_refcounts
def measure_until(
    base: Array,
    start: int,
    stop: int,
    shift: np.uint64,
    first: np.uint64,
    table: Array,
    sums: Array,
    before: np.uint64,
    i: int,
    indices: Array,
    gaps: Array,
    own: Array,
) -> tuple[int, np.uint64]:
    """Measure the gaps before an element of a tile; return the next change, and the sum after the last."""
    while i < indices.size and np.int64(indices[i]) < stop:
        at = np.int64(indices[i])
        here = sums[(at - start) // RUN] + add_before(base, at, shift, first, table)
        weight = weigh(U64(base[at]), shift, first, table)
        gaps[i], own[i] = here - before, weight
        before = here + weight
        i += 1
    return i, before


@inline_without_refcounts
def rise(place: np.uint64, cumulative: Array) -> np.uint64:
    """Return the cumulative frequency of a place, at most ``REACH``."""
    segment = np.int64(place >> SEGMENT_BITS)
    low = U64(cumulative[segment])
    slope = U64(cumulative[segment + 1]) - low
    return low + (((place & (SEGMENT - U64(1))) * slope) >> SEGMENT_BITS)


@kernel
def write_positions(
    gaps: Array, own: Array, cuts: Array, cumulative: Array, states: Array, words: Array
) -> int:
    """Encode gaps; return the first word written, or -1 if the buffer is too short.

    Args:
        gaps, own: as of ``measure_gaps``.
        cuts: (lanes + 1,) i64, the first change of each lane, and r.
        cumulative: (18,) u32, frequencies below each segment's first place, out of 2^31; the last is 2^31.
        states: (lanes,) u64, overwritten.
        words: (n,) u32, written from the end.
    """
    lanes, at = states.size, words.size
    top = U64(cumulative[SEGMENTS])
    beyond = (U64(1) << PRECISION) - top
    longest = 0
    for lane in range(lanes):
        states[lane] = LEAST
        longest = max(longest, cuts[lane + 1] - cuts[lane])
    for turn in range(longest - 1, -1, -1):
        for lane in range(lanes - 1, -1, -1):
            i = cuts[lane] + turn
            if i >= cuts[lane + 1]:
                continue
            escapes = gaps[i] // REACH
            first = gaps[i] - escapes * REACH
            last = first + own[i]
            start = rise(first, cumulative)
            freq = rise(min(last, REACH), cumulative) - start
            if last > REACH:
                further = rise(min(last - REACH, REACH), cumulative)
                if further >> U64(8) > freq:
                    escapes += U64(1)
                    start, freq = U64(0), further
            if U64(at) < escapes + U64(1 + 2 * lanes):
                return FAULT
            x, at = push(states[lane], start, freq, PRECISION, words, at)
            for _ in range(escapes):
                x, at = push(x, top, beyond, PRECISION, words, at)
            states[lane] = x
    return write_states(states, words, at)


@inline_without_refcounts
def find_place(x: np.uint64, cumulative: Array, segments: Array) -> np.uint64:
    """Return the last place on the scale whose cumulative frequency is not above the state's low bits."""
    slot = x & ((U64(1) << PRECISION) - U64(1))
    segment = U64(segments[slot >> U64(20)])
    segment += U64(U64(cumulative[segment + U64(1)]) <= slot)
    low = U64(cumulative[segment])
    slope = U64(cumulative[segment + U64(1)]) - low
    return (segment << SEGMENT_BITS) + (((slot - low + U64(1)) << SEGMENT_BITS) - U64(1)) // slope


@inline_without_refcounts
def skip_reaches(x: np.uint64, cumulative: Array, coded: Array, at: int) -> tuple[np.uint64, np.uint64, int]:
    """Read the symbols before that of a place; return the state, the places skipped, and the next word."""
    top = U64(cumulative[SEGMENTS])
    offset = U64(0)
    while x & ((U64(1) << PRECISION) - U64(1)) >= top:
        offset += REACH
        x, at = pull(x, top, (U64(1) << PRECISION) - top, PRECISION, coded, at)
    return x, offset, at


@inline_without_refcounts
def leave(
    x: np.uint64,
    total: np.uint64,
    own: np.uint64,
    offset: np.uint64,
    cumulative: Array,
    coded: Array,
    at: int,
) -> tuple[np.uint64, int]:
    """Leave the symbol of an element's places; return the state, and the next word."""
    start = rise(max(total, offset) - offset, cumulative)
    freq = rise(min(total + own - offset, REACH), cumulative) - start
    return pull(x, start, freq, PRECISION, coded, at)


@inline_without_refcounts
def find_in_run(
    base: Array,
    at: int,
    shift: np.uint64,
    first: np.uint64,
    table: Array,
    total: np.uint64,
    place: np.uint64,
) -> tuple[int, np.uint64]:
    """Find the element of a run whose weights reach beyond a place; return it, and the sum before it."""
    sums = prefix_sum(weigh_run(base, at, shift, first, table))
    below = sums <= np.uint32(place - total)
    return at + popcount(mask_to_bits(below)), total + U64(reduce_max(select(below, sums, sums ^ sums)))


@kernel
def read_positions(
    base: Array,
    shift: int,
    first: int,
    table: Array,
    starts: Array,
    cuts: Array,
    cumulative: Array,
    segments: Array,
    coded: Array,
    indices: Array,
) -> int:
    """Decode positions; return 0, or -1 if the section is not valid.

    The lanes take turns, so that the processor works at all of them at a time.

    Args:
        base, shift, first, table, starts: as of ``measure_gaps``.
        cuts, cumulative: as of ``write_positions``.
        segments: (2048,) u8, the segment of the first of each 2^20 places.
        coded: (n,) u32, the section's words.
        indices: (r,) u32, written.
    """
    s, low, lanes = U64(shift), U64(first), cuts.size - 1
    sums = np.empty(lanes * STRIDE, U64)
    states, after, before = np.empty(lanes, U64), np.zeros(lanes, U64), np.zeros(lanes, U64)
    firsts, counts, places = (
        np.empty(lanes, np.int64),
        np.full(lanes, TILE_RUNS, np.int64),
        np.zeros(lanes, np.int64),
    )
    at = read_states(coded, states)
    longest = 0
    for lane in range(lanes):
        firsts[lane] = starts[lane] - TILE_RUNS * RUN
        longest = max(longest, cuts[lane + 1] - cuts[lane])
        sums[lane * STRIDE + RUN] = U64(0xFFFFFFFFFFFFFFFF)
        if at == FAULT:
            return FAULT
    for turn in range(longest):
        for lane in range(lanes):
            k = cuts[lane] + turn
            if k >= cuts[lane + 1]:
                continue
            row, end = lane * STRIDE, starts[lane + 1]
            x, offset, at = skip_reaches(states[lane], cumulative, coded, at)
            if x == U64(0):
                return FAULT
            offset += before[lane]
            place = offset + find_place(x, cumulative, segments)
            while place >= after[lane] and counts[lane] == TILE_RUNS:
                firsts[lane] += TILE_RUNS * RUN
                counts[lane], after[lane] = accumulate(
                    base, firsts[lane], end, s, low, table, after[lane], sums, row
                )
                places[lane] = 0
            run = places[lane]
            while sums[row + run + RUN] <= place:
                run += RUN
            run += popcount(mask_to_bits(load(sums, row + run + 1, RUN) <= place))
            i, total = firsts[lane] + RUN * run, sums[row + run]
            if run < counts[lane]:
                i, total = find_in_run(base, i, s, low, table, total, place)
            else:
                while i < end and total + weigh(U64(base[i]), s, low, table) <= place:
                    total += weigh(U64(base[i]), s, low, table)
                    i += 1
                if i >= end:
                    return FAULT
            own = weigh(U64(base[i]), s, low, table)
            x, at = leave(x, total, own, offset, cumulative, coded, at)
            states[lane], before[lane], places[lane] = x, total + own, run
            indices[k] = i
    return 0 if has_ended(coded, at, states) else FAULT
