"""Sums over an array, in binary64 and in a fixed order: 64 partial sums, folded in halves.

Element i is added to partial sum i mod 64, in order. Then, for w = 32, 16, ... 1, sum j += sum (j + w) for j
< w. A threshold fitted to them is the same in every run, and no sum of float32 values overflows.
"""

from __future__ import annotations

from typing import Any

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float, sum_floats, to_float64
from wirecodec.kernels.cpu.simd.masks64 import keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, prefetch_ahead
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, select


@kernel
def sum_magnitudes(bits: Array) -> tuple[float, Any]:
    """Return Σ|x| and the largest key, from the bits of float32 or float64; one read."""
    top = keys64(load_tail64(bits), 0)
    last = to_float64(top)
    sums = splat_float(0.0, last)
    for start in range(0, bits.size & ~63, 64):
        prefetch_ahead(bits, start + PREFETCH_ELEMENTS, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
        sums = add_floats(sums, to_float64(keys))
    return sum_floats(add_floats(sums, last)), reduce_max(top)


@kernel
def sum_and_squares(bits: Array) -> tuple[float, float]:
    """Return Σx and Σx², from the bits of float32 or float64; one read."""
    last = to_float64(load(load_tail64(bits), 0, 64))
    sums = squares = splat_float(0.0, last)
    for start in range(0, bits.size & ~63, 64):
        prefetch_ahead(bits, start + PREFETCH_ELEMENTS, 64)
        values = to_float64(load(bits, start, 64))
        sums = add_floats(sums, values)
        squares = add_floats(squares, multiply_floats(values, values))
    sums = add_floats(sums, last)
    return sum_floats(sums), sum_floats(add_floats(squares, multiply_floats(last, last)))
