"""Loops over supports: checks of values and indices, scattered addition, and copies of many slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import copy_bytes, copy_elements, prefetch, view_at
from wirecodec.kernels.cpu.threads import next_unit

ADD_BLOCK = 2**16
"""Elements of an array that stay in the cache while several parts are added."""
PREFETCHED_TARGETS = 64
"""Elements of the next array that are prefetched."""
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
    addresses: Array,
    sizes: Array,
    parts: Array,
    index_addresses: Array,
    value_addresses: Array,
    counts: Array,
    scale: Any,
    like: Array,
    turns: Array,
) -> None:
    """Add several parts to each of many arrays, in their order, as ``add_at`` does.

    Several parts are added block by block, so that each block of an array is read once.

    Args:
        addresses: (n,) i64, of the arrays, which do not overlap.
        sizes: (n,) i64, their elements.
        parts: (n + 1,) i64, the place of each array's parts in the next three arguments.
        index_addresses: i64, of the u32 indices, ascending and below the array's size; 0 if the values are
            all elements.
        value_addresses: i64, of the values, which have the arrays' type.
        counts: i64, values per part.
        scale: the factor, of the arrays' type.
        like: an array of the type of the arrays.
        turns: counters of ``next_unit``; a unit is an array.
    """
    most = np.int64(0)
    for unit in range(sizes.size):
        most = max(most, parts[unit + 1] - parts[unit])
    cursors = np.empty(most, np.int64)
    unit = next_unit(turns, -1)
    while unit >= 0:
        out = view_at(addresses[unit], sizes[unit], like)
        first, n = parts[unit], parts[unit + 1] - parts[unit]
        cursors[:n] = 0
        if unit + 1 < sizes.size:
            later = view_at(addresses[unit + 1], sizes[unit + 1], like)
            _prefetch_targets(later, index_addresses[first + n], counts[first + n])
        block = out.size if n == 1 else ADD_BLOCK
        for start in range(0, out.size, block):
            stop = min(start + block, out.size)
            for i in range(n):
                values = view_at(value_addresses[first + i], counts[first + i], like)
                if index_addresses[first + i] == 0:
                    for j in range(start, stop):
                        out[j] += scale * values[j]
                else:
                    indices = view_at(index_addresses[first + i], counts[first + i], NO_INDICES)
                    cursors[i] = _add_below(out, indices, values, scale, cursors[i], stop)
        unit = next_unit(turns, unit)


@inline
def _prefetch_targets(out: Array, index_address: int, count: int) -> None:
    """Prefetch the elements that a part's first indices name, if it has indices."""
    if index_address != 0:
        indices = view_at(index_address, min(count, PREFETCHED_TARGETS), NO_INDICES)
        for i in range(indices.size):
            prefetch(out, np.int64(indices[i]), 1)


@inline
def _add_below(out: Array, indices: Array, values: Array, scale: Any, at: int, stop: int) -> int:
    """Add the values from number ``at`` on whose indices are below ``stop``; return the next number."""
    while at < indices.size and indices[at] < stop:
        out[indices[at]] += scale * values[at]
        at += 1
    return at


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
