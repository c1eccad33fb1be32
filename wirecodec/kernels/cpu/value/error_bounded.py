"""The numbers of error-bounded (formats/spec/value/error-bounded.md): errors to expect, cells, and back.

Sums are taken in binary64, in 64 partial sums; all else is binary32, with one rounding an operation.
``cells`` are (zero, first, 1 / step), where zero is 1 if k = 0 is for what lies below the first cell;
``numbers`` are (zero, first, step, place, most), where no magnitude is above most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    float_to_int,
    int_to_float,
    multiply_floats,
    splat_float,
    subtract_floats,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    load,
    mask_to_bits,
    reduce_add,
    reduce_max,
    resize,
    select,
    splat,
    store,
)
from wirecodec.kernels.cpu.simd.words import low_bits_mask, popcount

__all__ = [
    "SUMS",
    "codes_of",
    "difference",
    "expect",
    "measure",
    "numbers_of",
    "restore",
    "squares",
    "survey",
]

U32 = np.uint32
U64 = np.uint64
SUMS = 64
MOST = (1 << 20) - 1


@inline
def _cut(bits: Any, first: float, inverse: float) -> Any:
    """Magnitudes in steps from the first cell on, and which lie below it."""
    a, begin = bits & 0x7FFFFFFF, splat_float(first, bits)
    return multiply_floats(subtract_floats(a, begin), splat_float(inverse, bits)), a < begin


@inline
def codes_of(bits: Any, cells: Any) -> Any:
    """2k + sign of binary32 numbers."""
    zero, first, inverse = cells
    u, low = _cut(bits, first, inverse)
    k = float_to_int(u)
    code = (select(low, k & 0, k + zero) << 1) | (bits >> 31)
    return select(code >= U32(2 * zero), code, code & 0)


@inline
def numbers_of(code: Any, numbers: Any) -> Any:
    """What codes mean, in binary32."""
    zero, first, step, place, most = numbers
    j = add_floats(int_to_float((code >> 1) - zero), splat_float(place, code))
    a = add_floats(splat_float(first, code), multiply_floats(j, splat_float(step, code)))
    largest = splat_float(most, code)
    a = select(a < largest, a, largest) | (code << 31)
    return select(code >= U32(2 * zero), a, a & 0)


@inline
def _rest(values: Array) -> Array:
    """The last values, fewer than 64, and zeros."""
    rest = np.zeros(SUMS, values.dtype)
    for i in range(values.size & (SUMS - 1)):
        rest[i] = values[(values.size & -SUMS) + i]
    return rest


@inline
def _squared(sums: Any, d: Any) -> Any:
    return add_floats(sums, multiply_floats(d, d))


@kernel
def survey(bits: Array, values: Array) -> tuple[int, int, float]:
    """The least and the greatest magnitude among binary32 numbers, all as bits, and ``squares``."""
    least, most = splat(U32(0), SUMS), splat(U32(0), SUMS)
    sums = splat(U64(0), SUMS)
    for at in range(0, bits.size & -SUMS, SUMS):
        a = load(bits, at, SUMS) & 0x7FFFFFFF
        b = 0x7FFFFFFF - a
        most, least = select(a > most, a, most), select(b > least, b, least)
        sums = _squared(sums, to_float64(load(values, at, SUMS)))
    low, high = U32(0x7FFFFFFF) - reduce_max(least), reduce_max(most)
    for i in range(bits.size & -SUMS, bits.size):
        b = U32(bits[i] & U32(0x7FFFFFFF))
        low, high = min(low, b), max(high, b)
    return low, high, sum_floats(_squared(sums, to_float64(load(_rest(values), 0, SUMS))))


@kernel
def squares(values: Array) -> float:
    """Σ v²."""
    sums = splat(U64(0), SUMS)
    for at in range(0, values.size & -SUMS, SUMS):
        sums = _squared(sums, to_float64(load(values, at, SUMS)))
    return sum_floats(_squared(sums, to_float64(load(_rest(values), 0, SUMS))))


@kernel
def difference(values: Array, others: Array) -> float:
    """Σ (v - w)²."""
    sums = splat(U64(0), SUMS)
    for at in range(0, values.size & -SUMS, SUMS):
        v, w = to_float64(load(values, at, SUMS)), to_float64(load(others, at, SUMS))
        sums = _squared(sums, subtract_floats(v, w))
    v, w = to_float64(load(_rest(values), 0, SUMS)), to_float64(load(_rest(others), 0, SUMS))
    return sum_floats(_squared(sums, subtract_floats(v, w)))


@inline
def _expected(bits: Any, there: Any, first: float, inverse: float, sums: Any) -> Any:
    """``expect`` of 64 values, of which only some are there."""
    fractions, seconds, lows, below = sums
    u, low = _cut(bits, first, inverse)
    part = subtract_floats(u, int_to_float(float_to_int(u)))
    few = mask_to_bits(low & there)
    if few:
        part = select(low, part & 0, part)
        lows = _squared(lows, to_float64(select(low & there, bits, bits & 0)))
    part = to_float64(select(there, part, part & 0))
    return add_floats(fractions, part), _squared(seconds, part), lows, below + popcount(few)


@kernel
def expect(bits: Array, first: Any, inverse: Any) -> tuple[float, float, float, int]:
    """Where values lie in their cells.

    Args:
        bits: (m,) u32, those of float32.
        first: where the first cell begins.
        inverse: 1 / the step.

    Returns the sum of the fractions of a step, of their squares, of the squares of the values below the
    first cell, and how many of those there are.
    """
    none = splat(U64(0), SUMS)
    sums = (none, none, none, np.int64(0))
    every = bits_to_mask(low_bits_mask(SUMS), SUMS)
    for at in range(0, bits.size & -SUMS, SUMS):
        sums = _expected(load(bits, at, SUMS), every, first, inverse, sums)
    there = bits_to_mask(low_bits_mask(bits.size & (SUMS - 1)), SUMS)
    fractions, seconds, lows, below = _expected(load(_rest(bits), 0, SUMS), there, first, inverse, sums)
    return sum_floats(fractions), sum_floats(seconds), sum_floats(lows), below


@inline
def _measured(bits: Any, values: Any, there: Any, cells: Any, numbers: Any, sums: Any) -> Any:
    """``measure`` of 64 values, of which only some are there."""
    errors, ks = sums
    code = codes_of(bits, cells)
    d = subtract_floats(to_float64((values << 1) >> 1), to_float64(numbers_of((code >> 1) << 1, numbers)))
    k = code >> 1
    k = select(k < MOST, k, (k & 0) | MOST)
    return _squared(errors, select(there, d, d & 0)), ks + select(there, k, k & 0)


@kernel
def measure(bits: Array, values: Array, cells: Any, numbers: Any) -> tuple[float, int]:
    """Σ (v - v̂)² of at most 2^17 values, and the sum of the k, each taken as 2^20 - 1 at most.

    Args:
        bits: (m,) u32, the values as float32.
        values: (m,) float32 or float64.
        cells, numbers: as the module says.
    """
    sums = (splat(U64(0), SUMS), splat(U32(0), SUMS))
    every = bits_to_mask(low_bits_mask(SUMS), SUMS)
    for at in range(0, bits.size & -SUMS, SUMS):
        sums = _measured(load(bits, at, SUMS), load(values, at, SUMS), every, cells, numbers, sums)
    there = bits_to_mask(low_bits_mask(bits.size & (SUMS - 1)), SUMS)
    bit, value = load(_rest(bits), 0, SUMS), load(_rest(values), 0, SUMS)
    errors, ks = _measured(bit, value, there, cells, numbers, sums)
    return sum_floats(errors), np.int64(reduce_add(resize(ks, 64)))


@kernel
def restore(bits: Array, cells: Any, numbers: Any, out: Array) -> None:
    """What will be read of values, in binary32.

    Args:
        bits: (m,) u32, the values as float32.
        cells, numbers: as the module says.
        out: room for m + 64 u32, the bits of float32, written; the last 64 of a multiple of 64 are padding.
    """
    for at in range(0, bits.size & -SUMS, SUMS):
        store(out, at, numbers_of(codes_of(load(bits, at, SUMS), cells), numbers))
    store(out, bits.size & -SUMS, numbers_of(codes_of(load(_rest(bits), 0, SUMS), cells), numbers))
