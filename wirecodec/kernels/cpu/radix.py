"""Order without sorting: the k-th largest of many keys by counting digits of 11 bits.

A key is a float's bits without the sign; it orders as the magnitude does. Four tables take turns, since a
processor that counts equal digits one after the other waits for its own stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.memory import width_of

__all__ = ["count_from", "count_threshold", "kth_largest", "threshold_of"]

U64 = np.uint64
DIGIT = 11
DIGITS = 1 << DIGIT
FEW = 32


@inline
def _count_digits(keys: Array, shift: int, counts: Array) -> None:
    """How many ``keys`` have each digit, the 11 bits from ``shift`` on, into the first row of ``counts``."""
    counts[:] = 0
    low, mask = U64(shift), U64(DIGITS - 1)
    whole = keys.size & ~3
    for i in range(0, whole, 4):
        counts[0, (U64(keys[i]) >> low) & mask] += 1
        counts[1, (U64(keys[i + 1]) >> low) & mask] += 1
        counts[2, (U64(keys[i + 2]) >> low) & mask] += 1
        counts[3, (U64(keys[i + 3]) >> low) & mask] += 1
    for i in range(whole, keys.size):
        counts[0, (U64(keys[i]) >> low) & mask] += 1
    for digit in range(DIGITS):
        counts[0, digit] += counts[1, digit] + counts[2, digit] + counts[3, digit]


@inline
def _digit_at(counts: Array, rank: int) -> tuple[int, int]:
    """The digit of the ``rank``-th largest key, and its rank among the keys of that digit."""
    digit = DIGITS - 1
    while digit > 0 and counts[0, digit] < rank:
        rank -= counts[0, digit]
        digit -= 1
    return digit, rank


@kernel
def kth_largest(keys: Array, rank: int, width: int) -> Any:
    """The ``rank``-th largest of ``keys``, which agree above their low ``width`` bits; their order is lost.

    1 <= rank <= keys.size.
    """
    counts = np.empty((4, DIGITS), np.int32)
    n = keys.size
    while n > FEW and width > 0:
        shift = max(width - DIGIT, 0)
        _count_digits(keys[:n], shift, counts)
        digit, rank = _digit_at(counts, rank)
        left = 0
        for i in range(n):
            key = keys[i]
            keys[left] = key
            left += ((U64(key) >> U64(shift)) & U64(DIGITS - 1)) == U64(digit)
        n, width = left, shift
    if width == 0:
        return keys[0]
    for i in range(1, n):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] < key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key
    return keys[rank - 1]


@kernel
def count_from(keys: Array, threshold: int) -> tuple[int, int]:
    """How many ``keys`` are above a threshold, and how many equal to it."""
    least = U64(threshold)
    more = equal = 0
    for i in range(keys.size):
        more += U64(keys[i]) > least
        equal += U64(keys[i]) == least
    return more, equal


@kernel
def threshold_of(keys: Array, rank: int, width: int) -> tuple[int, int]:
    """The ``rank``-th largest of ``keys``, and how many of those equal to it are among the ``rank`` largest.

    They agree above their low ``width`` bits. (0, 0) where there is no such rank.
    """
    if not 1 <= rank <= keys.size:
        return U64(0), 0
    threshold = U64(kth_largest(keys.copy(), rank, width))
    return threshold, rank - count_from(keys, threshold)[0]


@kernel
def count_threshold(bits: Array, k: int) -> tuple[int, int]:
    """The k-th largest key of ``bits``, and how many of the keys equal to it belong to the top k.

    A key is a word without its sign; 1 <= k <= size. One pass for every 11 of its bits, whatever the input.
    """
    width = width_of(bits) - 1
    counts = np.empty((4, DIGITS + 1), np.int64)
    digits = np.empty(4096, np.uint16)
    magnitude = U64((U64(1) << U64(width)) - U64(1))
    found = U64(0)
    left = width
    while left > 0:
        shift = max(left - DIGIT, 0)
        counts[:] = 0
        low, base, beyond = U64(shift), U64(found << U64(left)), U64(1) << U64(left - shift)
        for start in range(0, bits.size, digits.size):
            block = bits[start : start + digits.size]
            for i in range(block.size):
                digits[i] = min(((U64(block[i]) & magnitude) - base) >> low, beyond)
            for i in range(0, block.size - 3, 4):
                counts[0, U64(digits[i])] += 1
                counts[1, U64(digits[i + 1])] += 1
                counts[2, U64(digits[i + 2])] += 1
                counts[3, U64(digits[i + 3])] += 1
            for i in range(block.size & ~3, block.size):
                counts[0, U64(digits[i])] += 1
        counts[0] += counts[1] + counts[2] + counts[3]
        counts[0, beyond] = 0
        digit, k = _digit_at(counts, k)
        found = U64((found << U64(left - shift)) | U64(digit))
        left = shift
    return found, k
