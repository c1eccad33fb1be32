"""Loops over supports: checks of values and indices, scattered addition, and copies of many slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import copy_bytes, copy_elements, prefetch, view_at
from wirecodec.kernels.cpu.simd.words import trailing_zeros
from wirecodec.kernels.cpu.threads import next_unit

ADD_BLOCK = 2**16
"""Elements of an array that stay in the cache while several parts are added."""
PREFETCHED_TARGETS = 64
"""Elements of the next array that are prefetched."""
DENSE_FRACTION = 8
"""If at least one of so many elements is stored, all are divided: vectors of elements take less time."""
NO_INDICES = np.empty(0, np.uint32)
"""Gives ``view_at`` the type of indices."""


@kernel
def find_nonfinite(bits: Array, exponent: Any) -> int:
    """Return the first position with all exponent bits set (``exponent`` is their mask), or -1."""
    for start in range(0, bits.size, 4096):
        block = bits[start : start + 4096]
        found = False
        for i in range(block.size):
            found |= (block[i] & exponent) == exponent
        if found:
            for i in range(block.size):
                if (block[i] & exponent) == exponent:
                    return start + i
    return -1


@kernel
def find_array(addresses: Array, sizes: Array, like: Array, mask: Any) -> int:
    """Return the number of the first array with an element that has all bits of a mask, or -1.

    Args:
        addresses, sizes: (n,) i64, of each array.
        like: an array of unsigned integers of the elements' width.
        mask: bits that are set in the elements to be found.
    """
    for number in range(addresses.size):
        bits = view_at(addresses[number], sizes[number], like)
        for start in range(0, bits.size, 4096):
            block = bits[start : start + 4096]
            found = False
            for i in range(block.size):
                found |= (block[i] & mask) == mask
            if found:
                return number
    return -1


@kernel
def find_disorder(indices: Array) -> int:
    """Return the first position i > 0 with indices[i] <= indices[i - 1], or -1."""
    disorder = False
    for i in range(1, indices.size):
        disorder |= indices[i] <= indices[i - 1]
    if disorder:
        for i in range(1, indices.size):
            if indices[i] <= indices[i - 1]:
                return i
    return -1


@kernel
def add_at(out: Array, indices: Array, values: Array, scale: Any) -> None:
    """Compute out[indices[i]] += scale * values[i] in the type of ``out``; the product is rounded first."""
    for i in range(indices.size):
        out[indices[i]] += scale * values[i]


@kernel
def add_parts(
    ranges: Array,
    arrays: Array,
    parts: Array,
    scales: Array,
    divisor: Any,
    like: Array,
    finite: Array,
    turns: Array,
) -> None:
    """Add several parts to each of many arrays, in their order, as ``add_at`` does; then divide the sums.

    Several parts are added block by block, so that each block of an array is read once. Elements that no part
    stores must be +0 if there is a divisor, and stay so.

    Args:
        ranges: (m, 3) i64, an array's number, the first element, and the one after the last; they are units.
        arrays: (n + 1, 3) i64, an address, the number of elements, and the place of the first part. The
            arrays do not overlap.
        parts: (p, 4) i64: address of the u32 indices, or 0 if the values are all elements; the index of the
            array's first element; address of the values; number of values. Indices ascend, and are within the
            array.
        scales: (p,) the parts' factors, of the arrays' type.
        divisor: of the arrays' type; 0 to leave the sums.
        like: an array of the type of the arrays.
        finite: (n,) bool; set to False for an array with a quotient that is NaN or Inf.
        turns: counters of ``next_unit``.
    """
    most = np.int64(0)
    for i in range(arrays.shape[0] - 1):
        most = max(most, arrays[i + 1, 2] - arrays[i, 2])
    cursors, before = np.empty(most, np.int64), np.empty(most, np.int64)
    marks = np.zeros(ADD_BLOCK // 64, np.uint64)
    unit = next_unit(turns, -1)
    while unit >= 0:
        number, begin, end = ranges[unit, 0], ranges[unit, 1], ranges[unit, 2]
        out = view_at(arrays[number, 0], arrays[number, 1], like)
        first, n = arrays[number, 2], arrays[number + 1, 2] - arrays[number, 2]
        for i in range(n):
            cursors[i] = _find_place(parts, first + i, 0, begin)
        if unit + 1 < ranges.shape[0]:
            _prefetch_targets(arrays, parts, ranges[unit + 1, 0], ranges[unit + 1, 1], like)
        block = max(end - begin, 1) if n == 1 and divisor == 0 else ADD_BLOCK
        for start in range(begin, end, block):
            stop = min(start + block, end)
            stored = np.int64(0)
            for i in range(n):
                values = view_at(parts[first + i, 2], parts[first + i, 3], like)
                before[i], scale = cursors[i], scales[first + i]
                if parts[first + i, 0] == 0:
                    for j in range(start, stop):
                        out[j] += scale * values[j]
                    stored = np.int64(ADD_BLOCK)
                else:
                    indices = view_at(parts[first + i, 0], parts[first + i, 3], NO_INDICES)
                    base, last = parts[first + i, 1], _find_place(parts, first + i, cursors[i], stop)
                    for j in range(cursors[i], last):
                        out[np.uint64(indices[j]) - np.uint64(base)] += scale * values[np.uint64(j)]
                    cursors[i] = last
                    stored += cursors[i] - before[i]
            if divisor == 0 or stored == 0:
                continue
            if DENSE_FRACTION * stored >= stop - start:
                is_finite = _divide_all(out, start, stop, divisor)
            else:
                for i in range(n):
                    indices = view_at(parts[first + i, 0], parts[first + i, 3], NO_INDICES)
                    for j in range(before[i], cursors[i]):
                        at = np.int64(indices[j]) - parts[first + i, 1] - start
                        marks[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
                is_finite = _divide_marked(out, start, (stop - start + 63) >> 6, marks, divisor)
            if not is_finite:
                finite[number] = False
        unit = next_unit(turns, unit)


@inline
def _find_place(parts: Array, part: int, low: int, begin: int) -> int:
    """Return the number of a part's first value, from number ``low`` on, at or after an element."""
    high = parts[part, 3]
    if begin == 0 or parts[part, 0] == 0:
        return low
    indices = view_at(parts[part, 0], high, NO_INDICES)
    # All values may be below, as in an array that is added to at once.
    if low < high and np.int64(indices[high - 1]) - parts[part, 1] < begin:
        return high
    while low < high:
        middle = (low + high) >> 1
        if np.int64(indices[middle]) - parts[part, 1] < begin:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _prefetch_targets(arrays: Array, parts: Array, number: int, begin: int, like: Array) -> None:
    """Prefetch the elements that the indices of an array's first part name, if it is short."""
    part = arrays[number, 2]
    if begin == 0 and part < arrays[number + 1, 2] and parts[part, 0] != 0:
        out = view_at(arrays[number, 0], arrays[number, 1], like)
        indices = view_at(parts[part, 0], min(parts[part, 3], PREFETCHED_TARGETS), NO_INDICES)
        for i in range(indices.size):
            prefetch(out, np.int64(indices[i]) - parts[part, 1], 1)


@inline
def _divide_all(out: Array, start: int, stop: int, divisor: Any) -> bool:
    """Divide elements; return whether all quotients are finite."""
    wrong = False
    for i in range(start, stop):
        quotient = out[i] / divisor
        out[i] = quotient
        wrong |= quotient - quotient != 0
    return not wrong


@inline
def _divide_marked(out: Array, start: int, words: int, marks: Array, divisor: Any) -> bool:
    """Divide the elements whose bits are set, and clear these; return whether all quotients are finite."""
    wrong = False
    for word in range(words):
        left = marks[word]
        marks[word] = 0
        while left:
            at = start + (word << 6) + trailing_zeros(left)
            quotient = out[at] / divisor
            out[at] = quotient
            wrong |= quotient - quotient != 0
            left &= left - np.uint64(1)
    return not wrong


@kernel
def gather_slices(source: Array, starts: Array, out: Array, cuts: Array) -> None:
    """Copy the bytes of ``source`` from starts[i] on to out[cuts[i]:cuts[i + 1]], for each i."""
    for i in range(starts.size):
        copy_elements(source, starts[i], cuts[i + 1] - cuts[i], out, cuts[i])


@kernel
def copy_slices(source: Array, places: Array, lengths: Array, out: Array, starts: Array) -> None:
    """Copy lengths[i] bytes from source[places[i]] on to out[starts[i]] on, for each i."""
    for i in range(starts.size):
        copy_bytes(source, places[i], lengths[i], out, starts[i])
