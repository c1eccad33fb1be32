"""AdaComp's two looks at a bin (AdaComp, Algorithm 2): its greatest |G|, and who reaches that.

A bin is read once from memory; the second look finds it in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.simd.masks64 import adacomp_mask64, max_key64
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.words import float_from_bits, low_bits_mask

__all__ = ["NOT_FINITE", "PARTIAL_SUMS", "fill_bins"]

F64 = np.float64

NOT_FINITE = -1
"""What ``fill_bins`` returns instead of a count where a bin holds NaN or Inf."""

PARTIAL_SUMS = 16
"""Partial sums of the bins' greatest magnitudes."""


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
    """The positions of what AdaComp sends of ``size`` elements, ascending, into ``out``.

    Args:
        x: G, float32 or float64; 63 elements beyond ``size`` must be readable.
        gradient: of the same type and length.
        bits: of ``x``.
        size: how many elements count.
        width: elements of a bin; the last one may be shorter.
        ahead: H = G + ahead · gradient.
        infinity: the bits of infinity.
        out: positions, written; of at least ``size`` + 64.
        sums: (SUMS,) float64; the greatest magnitude of bin b is added to sum b mod SUMS.

    Returns how many there are, or NO_ORDER.
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
