"""AdaComp's two passes over a bin (AdaComp, Algorithm 2): its maximum |G|, and the elements that reach it.

A bin is read once from memory; the second pass reads it from the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.masks64 import adacomp_mask64, max_key64
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.words import float_from_bits, low_bits_mask

F64 = np.float64

NOT_FINITE = -1
"""Result of ``fill_bins`` if a bin holds NaN or Inf."""

PARTIAL_SUMS = 16
"""Number of partial sums of the bins' maxima."""


@kernel
def fill_bins(
    x: Array,
    gradient: Array,
    bits: Array,
    size: int,
    width: int,
    ahead: Any,
    infinity: Any,
    out: Array,
    sums: Array,
) -> int:
    """Store the positions that AdaComp sends of ``size`` elements, ascending.

    Args:
        x: G, float32 or float64; 63 elements beyond ``size`` must be readable.
        gradient: of the same type and length.
        bits: of ``x``.
        size: number of elements.
        width: elements per bin; the last one may be shorter.
        ahead: H = G + ahead · gradient.
        infinity: the bits of infinity.
        out: positions, written; at least ``size`` + 64.
        sums: (PARTIAL_SUMS,) float64; the maximum magnitude of bin b is added to sum b mod PARTIAL_SUMS.

    Returns the number of positions, or NOT_FINITE.
    """
    count = 0
    for bin, begin in enumerate(range(0, size, width)):
        end = min(begin + width, size)
        top = max_key64(bits, begin, low_bits_mask(end - begin))
        for at in range(begin + 64, end, 64):
            top = max(top, max_key64(bits, at, low_bits_mask(end - at)))
        if top >= infinity:
            return NOT_FINITE
        if top != 0:
            sums[bin & (PARTIAL_SUMS - 1)] += F64(float_from_bits(top))
            for at in range(begin, end, 64):
                mask = adacomp_mask64(x, gradient, at, ahead, top) & low_bits_mask(end - at)
                count += store_set_bits(out, count, mask, at)
    return count
