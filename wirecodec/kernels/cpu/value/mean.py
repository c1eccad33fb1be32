"""Kernel of mean (formats/spec/value/mean.md)."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.floats import sum_floats
from wirecodec.kernels.cpu.simd.vector import load

F64 = np.float64


@kernel
def sum_values(values: Array) -> float:
    """Sum (r,) float32 or float64 values in binary64.

    64 partial sums are added pairwise, in the spec page's order.
    """
    sums = np.zeros(64, F64)
    whole = values.size & ~63
    for start in range(0, whole, 64):
        block = values[start : start + 64]
        for j in range(64):
            sums[j] += F64(block[j])
    for i in range(whole, values.size):
        sums[i & 63] += F64(values[i])
    return sum_floats(load(sums, 0, 64))
