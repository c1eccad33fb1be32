"""Loops over supports: checks of values and indices, scattered addition, and copies of many slices."""

from __future__ import annotations

from typing import Any

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.simd.memory import view_at
from wirecodec.kernels.cpu.threads import next_unit

__all__ = ["add_at", "add_batch", "copy_slices", "find_disorder", "find_nonfinite"]


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
def add_batch(
    addresses: Array,
    sizes: Array,
    indices: Array,
    index_places: Array,
    values: Array,
    value_places: Array,
    counts: Array,
    scale: Any,
    like: Array,
    turns: Array,
) -> None:
    """Apply ``add_at`` to many arrays.

    Args:
        addresses: (n,) i64, of the arrays, which do not overlap.
        sizes: (n,) i64, their elements.
        indices: u32, of all arrays, each below the array's size.
        index_places: (n,) i64, the place of each array's indices; -1 if its values are all its elements.
        values: of the arrays' type.
        value_places: (n,) i64, the place of each array's values.
        counts: (n,) i64, values of each array.
        scale: the factor, of the arrays' type.
        like: an array of the type of the arrays.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        out = view_at(addresses[unit], sizes[unit], like)
        start, place, count = index_places[unit], value_places[unit], counts[unit]
        if start >= 0:
            add_at(out, indices[start : start + count], values[place : place + count], scale)
        else:
            for i in range(out.size):
                out[i] += scale * values[place + i]
        unit = next_unit(turns, unit)


@kernel
def copy_slices(source: Array, cuts: Array, out: Array, starts: Array) -> None:
    """Copy source[cuts[i]:cuts[i + 1]] to ``out`` from starts[i] on, for each i; all of them are bytes."""
    for i in range(starts.size):
        n = cuts[i + 1] - cuts[i]
        out[starts[i] : starts[i] + n] = source[cuts[i] : cuts[i + 1]]
