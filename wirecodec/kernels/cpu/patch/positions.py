"""Kernels of the index codec by-class (formats/spec/patch.md): positions on a scale of weights.

Each element of the base has a weight, that of its class. On the scale of the sums of weights, changes are close
to a Poisson process, so a gap is a geometric number of blocks, and a uniform place within one. The decoder sums
weights until it passes the place, and finds the element there.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.patch.rans import LEAST, pull, push

U64 = np.uint64
SEGMENT_BITS = U64(24)
SEGMENT = U64(1) << SEGMENT_BITS
SEGMENTS = 16
"""Segments of the scale in which a symbol can place a change; a further symbol is for all that follow."""
REACH = U64(SEGMENTS) << SEGMENT_BITS
PRECISION = U64(31)

FAULT = -1
"""Result for a section that is not valid."""


@kernel
def count_classes(base: Array, shift: int, mask: int, step: int, counts: Array) -> None:
    """Count the classes of every ``step``-th run of 8 elements: add to (m,) i64 at (bits & mask) >> shift."""
    s, m = U64(shift), U64(mask)
    for first in range(0, base.size, 8 * step):
        for i in range(first, min(first + 8, base.size)):
            counts[(U64(base[i]) & m) >> s] += 1


@kernel
def count_classes_at(base: Array, shift: int, mask: int, indices: Array, counts: Array) -> None:
    """Count the classes of some elements."""
    s, m = U64(shift), U64(mask)
    for i in range(indices.size):
        counts[(U64(base[indices[i]]) & m) >> s] += 1


@kernel
def measure_gaps(
    base: Array, shift: int, mask: int, weights: Array, starts: Array, indices: Array, gaps: Array, own: Array
) -> None:
    """Compute the sum of weights before each change, from the one before, and the change's weight.

    Args:
        base: (d,) unsigned, bits of the elements.
        shift, mask: the row of ``weights`` of an element is (bits & mask) >> shift.
        weights: (members, m) u32.
        starts: (members + 1,) i64, the first element of each member, and d.
        indices: (r,) u32, ascending.
        gaps: (r,) u64, written.
        own: (r,) u32, written.
    """
    s, m = U64(shift), U64(mask)
    member, at, total = 0, 0, U64(0)
    table = weights[0]
    for i in range(indices.size):
        stop = np.int64(indices[i])
        while starts[member + 1] <= stop:
            for j in range(at, starts[member + 1]):
                total += U64(table[(U64(base[j]) & m) >> s])
            at = max(at, starts[member + 1])
            member += 1
            table = weights[member]
        for j in range(at, stop):
            total += U64(table[(U64(base[j]) & m) >> s])
        gaps[i], own[i] = total, table[(U64(base[stop]) & m) >> s]
        total, at = U64(0), stop + 1


@inline
def rise(place: np.uint64, cumulative: Array) -> np.uint64:
    """Return the cumulative frequency of a place, at most ``REACH``."""
    segment = np.int64(place >> SEGMENT_BITS)
    low = U64(cumulative[segment])
    slope = U64(cumulative[segment + 1]) - low
    return low + (((place & (SEGMENT - U64(1))) * slope) >> SEGMENT_BITS)


@kernel
def write_positions(gaps: Array, own: Array, cumulative: Array, words: Array) -> int:
    """Encode gaps; return the first word written, or -1 if the buffer is too short.

    Args:
        gaps, own: as of ``measure_gaps``.
        cumulative: (18,) u32, frequencies below each segment's first place, out of 2^31; the last is 2^31.
        words: (n,) u32, written from the end.
    """
    x, at = LEAST, words.size
    top = U64(cumulative[SEGMENTS])
    beyond = (U64(1) << PRECISION) - top
    for i in range(gaps.size - 1, -1, -1):
        escapes = gaps[i] // REACH
        first = gaps[i] - escapes * REACH
        last = first + U64(own[i])
        start = rise(first, cumulative)
        freq = rise(min(last, REACH), cumulative) - start
        if last > REACH:
            further = rise(min(last - REACH, REACH), cumulative)
            if further >> U64(8) > freq:
                escapes += U64(1)
                start, freq = U64(0), further
        if U64(at) < escapes + U64(4):
            return FAULT
        x, at = push(x, start, freq, PRECISION, words, at)
        for _ in range(escapes):
            x, at = push(x, top, beyond, PRECISION, words, at)
    words[at - 1], words[at - 2] = np.uint32(x >> U64(32)), np.uint32(x & U64(0xFFFFFFFF))
    return at - 2


@kernel
def read_positions(
    base: Array,
    shift: int,
    mask: int,
    weights: Array,
    starts: Array,
    cumulative: Array,
    words: Array,
    indices: Array,
) -> int:
    """Decode positions; return 0, or -1 if the section is not valid.

    Args:
        base, shift, mask, weights, starts: as of ``measure_gaps``.
        cumulative: as of ``write_positions``.
        words: (n,) u32, the section's.
        indices: (r,) u32, written.
    """
    if words.size < 2:
        return FAULT
    s, m, low = U64(shift), U64(mask), (U64(1) << PRECISION) - U64(1)
    x, at = U64(words[0]) | (U64(words[1]) << U64(32)), 2
    if x < LEAST or x >> U64(63) != U64(0):
        return FAULT
    d, member, i = base.size, 0, 0
    table, stop = weights[0], starts[1]
    top = U64(cumulative[SEGMENTS])
    beyond = (U64(1) << PRECISION) - top
    for k in range(indices.size):
        offset = U64(0)
        while x & low >= top:
            offset += REACH
            x, at = pull(x, top, beyond, PRECISION, words, at)
            if x == U64(0):
                return FAULT
        slot = x & low
        segment = 0
        while U64(cumulative[segment + 1]) <= slot:
            segment += 1
        rest = slot - U64(cumulative[segment]) + U64(1)
        slope = U64(cumulative[segment + 1] - cumulative[segment])
        place = offset + (U64(segment) << SEGMENT_BITS) + ((rest << SEGMENT_BITS) - U64(1)) // slope
        total, own = U64(0), U64(0)
        while True:
            while i + 8 <= stop:
                eight = U64(0)
                for j in range(8):
                    eight += U64(table[(U64(base[i + j]) & m) >> s])
                if total + eight > place:
                    break
                total += eight
                i += 8
            while i < stop:
                own = U64(table[(U64(base[i]) & m) >> s])
                if total + own > place:
                    break
                total += own
                i += 1
            if i < stop:
                break
            if i >= d:
                return FAULT
            member += 1
            table, stop = weights[member], starts[member + 1]
        start = rise(max(total, offset) - offset, cumulative)
        freq = rise(min(total + own - offset, REACH), cumulative) - start
        x, at = pull(x, start, freq, PRECISION, words, at)
        if x == U64(0):
            return FAULT
        indices[k] = i
        i += 1
    return 0 if at == words.size and x == LEAST else FAULT
