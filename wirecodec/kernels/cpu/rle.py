"""The loops of the RLE index codec (formats/spec/index/rle.md): the size of a section."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel

__all__ = ["planned"]

U32 = np.uint32


@kernel
def planned(indices: Array) -> int:
    """Bytes of the section of (r,) u32 ``indices``, r > 0.

    A byte for each run, and one more wherever a stored number reaches 2^7, 2^14 or 2^21. The last is asked of
    gaps one by one for absent runs, and for present runs by looking ahead: the run that begins at i is longer
    than n exactly where indices[i + n] is indices[i] + n.
    """
    r = indices.size
    first = indices[0]
    total = 2 + (first >= U32(1 << 7)) + (first >= U32(1 << 14)) + (first >= U32(1 << 21))
    for start in range(1, r, 4096):
        now = indices[start : start + 4096]
        before = indices[start - 1 : start - 1 + now.size]
        count = U32(0)  # at most 5 a gap
        for i in range(now.size):
            step = U32(now[i] - before[i])
            # One comparison a line: sums of comparisons would be widened to 64 bits.
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2 + (1 << 7))))
            count = U32(count + U32(step >= U32(2 + (1 << 14))))
            count = U32(count + U32(step >= U32(2 + (1 << 21))))
        total += np.int64(count)
    # A run of more than 128 holds two neighbouring multiples of 64, so mostly this is the end.
    dense = False
    for i in range(64, r, 64):
        dense |= U32(indices[i] - indices[i - 64]) == U32(64)
    if dense:
        for shift in (7, 14, 21):
            total += _runs_beyond(indices, np.int64(1) << shift)
    return total


@inline
def _runs_beyond(indices: Array, n: np.int64) -> np.int64:
    """How many runs of consecutive indices are longer than ``n``."""
    r = indices.size
    if r <= n:
        return np.int64(0)
    runs = np.int64(U32(indices[n] - indices[0]) == U32(n))
    for start in range(1, r - n, 4096):
        ahead = indices[start + n : start + n + 4096]
        now = indices[start : start + ahead.size]
        before = indices[start - 1 : start - 1 + ahead.size]
        count = U32(0)
        for i in range(ahead.size):
            begins = U32(U32(now[i] - before[i]) != U32(1))
            count = U32(count + U32(begins & U32(U32(ahead[i] - now[i]) == U32(n))))
        runs += np.int64(count)
    return runs
