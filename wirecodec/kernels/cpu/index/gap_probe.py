"""A glance at a support's gaps: do their classes promise more than one parameter a block can give?

Integers only, so that what is chosen by it is the same everywhere.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros

__all__ = ["BLOCK", "classes_and_rice"]

U64 = np.uint64

BLOCK = 256
FINE = 3
SYMBOLS = 176
"""Classes of gaps: the first one bit and the three that follow, as the finest of huffman."""
FRACTION = 10


@inline
def _log2(x: int) -> int:
    """2^10 times log2 of ``x``, rounded down; ``x`` is at most 2^20."""
    whole = 63 - leading_zeros(U64(x))
    mantissa = U64(x) << U64(30 - whole)
    result = whole
    for _ in range(FRACTION):
        mantissa = (mantissa * mantissa) >> U64(30)
        result <<= 1
        if mantissa >> U64(31):
            mantissa >>= U64(1)
            result |= 1
    return result


@kernel
def classes_and_rice(indices: Array, blocks: int) -> tuple[int, int]:
    """Bits that the gaps of some blocks take: by the entropy of their classes, and as rice.

    Args:
        indices: (r,) u32, ascending.
        blocks: how many blocks of 256 are looked at, spread evenly; at most r // 256.
    """
    counts = np.zeros(SYMBOLS, np.int64)
    every = indices.size // BLOCK // blocks * BLOCK
    rice = 0
    classes = 0
    for block in range(blocks):
        start = block * every + 1
        now = indices[start : min(start + BLOCK, indices.size)]
        before = indices[start - 1 : start - 1 + now.size]
        total = np.int64(now[now.size - 1]) - np.int64(before[0]) - now.size
        b = max(0, 62 - leading_zeros(U64(7 * total // (10 * now.size) | 1)))
        least = np.int64(0)
        for step in range(3):  # one of the four that rice tries: the fourth is rarely best
            bits = now.size * (b + step + 1)
            for i in range(now.size):
                gap = U64(now[i]) - U64(before[i]) - U64(1)
                bits += np.int64(gap >> U64(b + step))
            least = bits if step == 0 else min(least, bits)
        rice += least
        for i in range(now.size):
            gap = U64(now[i]) - U64(before[i]) - U64(1)
            extra = 63 - leading_zeros(gap | U64(1 << FINE)) - FINE
            counts[(extra << FINE) + np.int64(gap >> U64(extra))] += 1
            classes += extra
    total = counts.sum()
    surprise = 0
    for symbol in range(SYMBOLS):
        if counts[symbol] > 0:
            surprise += counts[symbol] * (_log2(total) - _log2(counts[symbol]))
    return classes + (surprise >> FRACTION), rice
