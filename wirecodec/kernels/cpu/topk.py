"""Exact top-k: a radix select on magnitude bits, then one ordered sweep.

A float's bits without the sign order as its magnitude does, so everything here is integer work: the same k on
any machine, ties to the lower index. Reads of the array: one for each 16 bits of key (1 for 16-bit types, 2
for float32, 4 for float64), and one to compact.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel

__all__ = ["fill_top", "kth_key"]

U64 = np.uint64


@kernel
def kth_key(bits: Array, k: int, key_bits: int) -> tuple[np.uint64, int]:
    """The k-th largest key, and how many of the keys equal to it belong to the top k.

    A key is the low ``key_bits`` bits of a word; 1 <= k <= size.
    """
    counts = np.empty(65536, np.int64)
    key_mask = (U64(1) << U64(key_bits)) - U64(1)
    found = U64(0)
    need = k
    left = key_bits
    while left > 0:
        width = min(16, left)
        shift = left - width
        counts[: 1 << width] = 0
        digit_mask = (U64(1) << U64(width)) - U64(1)
        for i in range(bits.size):
            key = U64(bits[i]) & key_mask
            if (key >> U64(left)) == found:
                counts[(key >> U64(shift)) & digit_mask] += 1
        digit = (1 << width) - 1
        while counts[digit] < need and digit > 0:
            need -= counts[digit]
            digit -= 1
        found = (found << U64(width)) | U64(digit)
        left = shift
    return found, need


@kernel
def fill_top(bits: Array, key_bits: int, threshold: np.uint64, ties: int, out: Array) -> int:
    """The positions of the top keys, ascending, into ``out``, which has exactly that room; how many.

    Those above ``threshold``, and the first ``ties`` of those equal to it.
    """
    key_mask = (U64(1) << U64(key_bits)) - U64(1)
    n = 0
    for i in range(bits.size):
        key = U64(bits[i]) & key_mask
        if key >= threshold:
            if key == threshold:
                if ties == 0:
                    continue
                ties -= 1
            if n == out.size:  # another thread writes to the array
                return n + 1
            out[n] = i
            n += 1
    return n
