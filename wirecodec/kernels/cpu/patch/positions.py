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
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.patch.rans import LEAST, has_ended, pull, push, read_states, write_states
from wirecodec.kernels.cpu.simd.memory import prefetch
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, reinterpret, resize, select, store
from wirecodec.kernels.cpu.simd.words import multiply_high, popcount
from wirecodec.kernels.layout import PATCH_CLASSES, PATCH_RUN, PATCH_SEGMENTS

U64 = np.uint64
SEGMENT_BITS = U64(24)
SEGMENT = U64(1) << SEGMENT_BITS
SEGMENTS = PATCH_SEGMENTS
"""Segments of the scale in which a symbol can place a change; a further symbol is for all that follow."""
REACH = U64(SEGMENTS) << SEGMENT_BITS
PRECISION = U64(31)

CLASSES, RUN, TILE = U64(PATCH_CLASSES), U64(PATCH_RUN), U64(4096)
SPAN, SEARCHED = U64(8), 16
WINDOW = U64(SEARCHED)
SPAN_PAIRS, TILE_PAIRS, STRIDE = SPAN >> U64(1), TILE >> U64(1), TILE // SPAN + WINDOW
"""Classes; elements that are classified at a time; elements that are decoded at a time for a lane, a tile;
elements between two sums of weights, a span; spans that are searched at a time; pairs of elements of a span
and of a tile; and the sums of a tile with those beyond, which are compared too.

Indices are unsigned: a signed one takes two more instructions, because it may count from the end."""

AHEAD = U64(16)
"""Runs of a sample ahead of which elements are requested."""
FAULT = -1
"""Result for a section that is not valid."""


@kernel
def count_classes(base: Array, shift: int, step: int, counts: Array) -> None:
    """Count the classes of every ``step``-th run of 8 elements: add to (m,) i64 at bits >> shift, of m."""
    s, rows = U64(shift), U64(counts.size - 1)
    # Neighbours are often of one class; an addition to a number that was just written waits for it.
    parts = np.zeros(4 * counts.size, np.uint32)
    for first in range(U64(0), U64(base.size), U64(8 * step)):
        prefetch(base, np.int64(first + U64(8 * step) * AHEAD), 1)
        for i in range(first, min(first + U64(8), U64(base.size))):
            parts[(i & U64(3)) * (rows + U64(1)) + ((U64(base[i]) >> s) & rows)] += np.uint32(1)
    for row in range(counts.size):
        for part in range(4):
            counts[row] += parts[part * counts.size + row]


@inline
def weigh_pairs(table: Array) -> Array:
    """Return the weights of two neighbours by their classes, low + 64 · high: (4096,) u32."""
    pairs = np.empty(PATCH_CLASSES * PATCH_CLASSES, np.uint32)
    for high in range(CLASSES):
        for low in range(CLASSES):
            pairs[CLASSES * high + low] = table[low] + table[high]
    return pairs


@inline_without_refcounts
def classify(
    base: Array, i: np.uint64, stop: np.uint64, shift: np.uint64, first: np.uint64, rows: np.uint64
) -> np.uint64:
    """Return the class of an element, its row minus ``first``; 0 beyond the last one."""
    if i >= stop:
        return U64(0)
    row = (U64(base[i]) >> shift) & rows
    return min(max(row, first) - first, CLASSES - U64(1))


@inline_without_refcounts
def classify_run(base: Array, at: np.uint64, shift: np.uint64, first: np.uint64, rows: np.uint64) -> Any:
    """Return the classes of 16 elements, two in each of 8 lanes: low + 64 · high."""
    found = (load(base, at, PATCH_RUN) >> shift) & rows
    none = found ^ found
    lowest, last = none | first, none | (CLASSES - U64(1))
    found = select(found > lowest, found, lowest) - lowest
    pairs = reinterpret(resize(select(found < last, found, last), 16), 32)
    return resize((pairs & (CLASSES - U64(1))) | (pairs >> U64(10)), 16)


@inline_without_refcounts
def accumulate(
    base: Array,
    start: np.uint64,
    stop: np.uint64,
    shift: np.uint64,
    first: np.uint64,
    rows: np.uint64,
    weights: Array,
    total: np.uint64,
    classes: Array,
    sums: Array,
    tile: np.uint64,
) -> np.uint64:
    """Write the classes of a tile's elements, and the sums of weights before its spans; return that after it.

    If the last run has fewer than 16 elements, others of class 0 fill it.

    Args:
        base: (d,) unsigned, bits of the elements.
        start, stop: the tile's first element, and the end of its lane.
        shift, first, rows: the class of an element is its row, bits >> shift & rows, minus ``first``.
        weights: of ``weigh_pairs``.
        total: sum of weights before the tile.
        classes: (tiles · TILE_PAIRS,) u16, of two neighbours each, written.
        sums: (tiles · STRIDE,) u64, written.
        tile: its place in both.
    """
    size = min(TILE, stop - start)
    row, pair = tile * STRIDE, tile * TILE_PAIRS
    whole = size & ~(RUN - U64(1))
    for at in range(U64(0), whole, RUN):
        store(classes, pair + (at >> U64(1)), classify_run(base, start + at, shift, first, rows))
    runs = (size + RUN - U64(1)) // RUN
    for at in range(whole, runs * RUN, U64(2)):
        low = classify(base, start + at, stop, shift, first, rows)
        high = classify(base, start + at + U64(1), stop, shift, first, rows)
        classes[pair + (at >> U64(1))] = low | (high << U64(6))
    spans = row + runs * (RUN // SPAN)
    for span in range(row, spans):
        sums[span] = total
        for j in range(SPAN_PAIRS):
            total += U64(weights[classes[pair + j]])
        pair += SPAN_PAIRS
    for span in range(spans, spans + WINDOW):
        sums[span] = U64(0xFFFFFFFFFFFFFFFF)
    return total


@inline_without_refcounts
def pick_class(classes: Array, at: np.uint64) -> np.uint64:
    """Return the class of an element, by its place in ``classes``."""
    return (U64(classes[at >> U64(1)]) >> (U64(6) * (at & U64(1)))) & (CLASSES - U64(1))


@inline_without_refcounts
def add_before(classes: Array, at: np.uint64, weights: Array, table: Array) -> np.uint64:
    """Add up the weights from a span's first element to the one before ``at``, without a branch."""
    pair, total = (at & ~(SPAN - U64(1))) >> U64(1), U64(0)
    for log in (U64(1), U64(0)):
        here = U64(0)
        for j in range(U64(1) << log):
            here += U64(weights[classes[pair + j]])
        taken = (at >> (log + U64(1))) & U64(1)
        total += here & (U64(0) - taken)
        pair += taken << log
    return total + (U64(table[U64(classes[pair]) & (CLASSES - U64(1))]) & (U64(0) - (at & U64(1))))


@kernel
def measure_gaps(
    base: Array, shift: int, first: int, table: Array, starts: Array, indices: Array, gaps: Array, own: Array
) -> None:
    """Compute the sum of weights from the change before, in its lane, to each change, and its weight.

    Args:
        base: (d,) unsigned, bits of the elements.
        shift, first: as of ``accumulate``.
        table: (65,) u32, the weight of each class, and the mask of rows.
        starts: (lanes + 1,) i64, the first element of each lane, and d; multiples of 16 but for d.
        indices: (r,) u32, ascending.
        gaps, own: (r,) u64, written.
    """
    weights, rows = weigh_pairs(table), U64(table[CLASSES])
    sums, classes = np.empty(np.int64(STRIDE), U64), np.empty(np.int64(TILE_PAIRS), np.uint16)
    i, r = U64(0), U64(indices.size)
    for lane in range(U64(starts.size - 1)):
        total, before, end = U64(0), U64(0), U64(starts[lane + U64(1)])
        for start in range(U64(starts[lane]), end, TILE):
            total = accumulate(
                base, start, end, U64(shift), U64(first), rows, weights, total, classes, sums, U64(0)
            )
            stop = min(start + TILE, end)
            while i < r and U64(indices[i]) < stop:
                at = U64(indices[i]) - start
                here = sums[at // SPAN] + add_before(classes, at, weights, table)
                weight = U64(table[pick_class(classes, at)])
                gaps[i], own[i] = here - before, weight
                before = here + weight
                i += U64(1)


@inline_without_refcounts
def rise(place: np.uint64, cumulative: Array) -> np.uint64:
    """Return the cumulative frequency of a place, at most ``REACH``."""
    segment = place >> SEGMENT_BITS
    low = U64(cumulative[segment])
    slope = U64(cumulative[segment + U64(1)]) - low
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
def slot_of(x: np.uint64) -> np.uint64:
    """Return the low bits of a state, by which its symbol is found."""
    return x & ((U64(1) << PRECISION) - U64(1))


@inline
def invert_slopes(cumulative: Array) -> Array:
    """Return 2^64 divided by the frequencies of each segment, rounded down: (16,) u64."""
    inverses = np.empty(SEGMENTS, U64)
    for segment in range(U64(SEGMENTS)):
        slope = U64(cumulative[segment + U64(1)]) - U64(cumulative[segment])
        inverses[segment] = U64(0xFFFFFFFFFFFFFFFF) // slope
    return inverses


@inline_without_refcounts
def find_place(x: np.uint64, cumulative: Array, segments: Array, inverses: Array) -> np.uint64:
    """Return the last place on the scale whose cumulative frequency is not above the state's low bits."""
    slot = slot_of(x)
    segment = U64(segments[slot >> U64(20)])
    segment += U64(U64(cumulative[segment + U64(1)]) <= slot)
    low = U64(cumulative[segment])
    slope = U64(cumulative[segment + U64(1)]) - low
    places = ((slot - low + U64(1)) << SEGMENT_BITS) - U64(1)
    # The product is the quotient, or one less.
    quotient = multiply_high(places, inverses[segment])
    quotient += U64(places - quotient * slope >= slope)
    return (segment << SEGMENT_BITS) + quotient


@inline_without_refcounts
def skip_reaches(x: np.uint64, cumulative: Array, coded: Array, at: int) -> tuple[np.uint64, np.uint64, int]:
    """Read the symbols before that of a place; return the state, the places skipped, and the next word."""
    top = U64(cumulative[SEGMENTS])
    offset = U64(0)
    while slot_of(x) >= top:
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
def find_span(sums: Array, span: np.uint64, place: np.uint64) -> np.uint64:
    """Return the last span, from one on, whose sum of weights before it is not above a place."""
    while sums[span + WINDOW] <= place:
        span += WINDOW
    # The sums ascend.
    return span + U64(popcount(mask_to_bits(load(sums, span + U64(1), SEARCHED) <= place)))


@inline_without_refcounts
def find_in_span(
    classes: Array, pair: np.uint64, weights: Array, table: Array, left: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Find the element of a span whose weights reach beyond a place; return it, and the weights before it.

    Args:
        classes, weights: as of ``accumulate``.
        pair: the span's first pair in ``classes``.
        table: as of ``measure_gaps``.
        left: the place, counted from the span's first one; below the sum of the span's weights.
    """
    at, total = U64(0), U64(0)
    for log in (U64(1), U64(0)):
        here = total
        for j in range(U64(1) << log):
            here += U64(weights[classes[pair + at + j]])
        taken = U64(here <= left)
        total = here if here <= left else total
        at += taken << log
    low = total + U64(table[U64(classes[pair + at]) & (CLASSES - U64(1))])
    return U64(2) * at + U64(low <= left), low if low <= left else total


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
    olds: Array,
) -> int:
    """Decode positions; return 0, or -1 if the section is not valid.

    The lanes take turns. Each step of a turn is made for many lanes, so that the processor makes some of them
    at a time.

    Args:
        base, shift, first, table, starts: as of ``measure_gaps``.
        cuts, cumulative: as of ``write_positions``.
        segments: (2048,) u8, the segment of the first of each 2^20 places.
        coded: (n,) u32, the section's words.
        indices: (r,) u32, written.
        olds: (r,) unsigned, bits of the elements there, written.
    """
    n = cuts.size - 1
    weights, inverses = weigh_pairs(table), invert_slopes(cumulative)
    sums, classes = np.empty(n * np.int64(STRIDE), U64), np.empty(n * np.int64(TILE_PAIRS), np.uint16)
    states, after, before = np.empty(n, U64), np.zeros(n, U64), np.zeros(n, U64)
    offsets, places, totals, owns = np.zeros(n, U64), np.empty(n, U64), np.empty(n, U64), np.empty(n, U64)
    firsts, ends, spans = np.empty(n, U64), np.empty(n, U64), np.zeros(n, U64)
    at = read_states(coded, states)
    if at == FAULT:
        return FAULT
    lanes, longest, rows, top = U64(n), U64(0), U64(table[CLASSES]), U64(cumulative[SEGMENTS])
    for lane in range(lanes):
        firsts[lane], ends[lane] = U64(starts[lane]) - TILE, starts[lane + U64(1)]
        longest = max(longest, U64(cuts[lane + U64(1)] - cuts[lane]))
    for turn in range(longest):
        lane = U64(0)
        while lane < lanes:
            if turn >= U64(cuts[lane + U64(1)] - cuts[lane]):
                lane += U64(1)
                continue
            states[lane], offsets[lane], at = skip_reaches(states[lane], cumulative, coded, at)
            if states[lane] == U64(0):
                return FAULT
            # Further lanes, up to one that has ended, or that reads words before its place.
            stop = lane + U64(1)
            while (
                stop < lanes and turn < U64(cuts[stop + U64(1)] - cuts[stop]) and slot_of(states[stop]) < top
            ):
                offsets[stop] = U64(0)
                stop += U64(1)
            for j in range(lane, stop):
                offsets[j] += before[j]
                places[j] = offsets[j] + find_place(states[j], cumulative, segments, inverses)
            for j in range(lane, stop):
                place, row = places[j], j * STRIDE
                while place >= after[j]:
                    firsts[j] += TILE
                    spans[j] = U64(0)
                    if firsts[j] >= ends[j]:
                        return FAULT
                    after[j] = accumulate(
                        base,
                        firsts[j],
                        ends[j],
                        U64(shift),
                        U64(first),
                        rows,
                        weights,
                        after[j],
                        classes,
                        sums,
                        j,
                    )
                spans[j] = find_span(sums, row + spans[j], place) - row
            for j in range(lane, stop):
                total = sums[j * STRIDE + spans[j]]
                pair = j * TILE_PAIRS + spans[j] * SPAN_PAIRS
                i, more = find_in_span(classes, pair, weights, table, places[j] - total)
                totals[j] = total + more
                owns[j] = table[pick_class(classes, U64(2) * pair + i)]
                i += firsts[j] + spans[j] * SPAN
                if i >= ends[j]:
                    return FAULT
                k = U64(cuts[j]) + turn
                indices[k], olds[k] = i, base[i]
            for j in range(lane, stop):
                states[j], at = leave(states[j], totals[j], owns[j], offsets[j], cumulative, coded, at)
                before[j] = totals[j] + owns[j]
            lane = stop
    return 0 if has_ended(coded, at, states) else FAULT
