"""Selection without sorting: the k-th largest of many keys, by counting digits of 11 bits.

A key is a float's bits without the sign; it orders as the magnitude does. Four tables alternate, because a
processor that counts equal digits in succession waits for its own stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, bit_width, prefetch_ahead
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits, resize, store
from wirecodec.kernels.cpu.simd.words import popcount, trailing_zeros

U64 = np.uint64
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
MAX_SORTED_SIZE = 32
BLOCK_SIZE = 4096
ROWS = 4
MAX_PART_SIZE = 2**30  # elements that are counted in 32 bits


@inline
def _count_digits(keys: Array, shift: int, counts: Array) -> None:
    """Count the ``keys`` with each digit, the 11 bits from ``shift`` on, in the first row of ``counts``."""
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
def _find_digit(counts: Array, rank: int) -> tuple[int, int]:
    """Return the digit of the ``rank``-th largest key, and its rank among the keys with that digit."""
    digit = DIGITS - 1
    while digit > 0 and counts[0, digit] < rank:
        rank -= counts[0, digit]
        digit -= 1
    return digit, rank


@inline
def select_kth(keys: Array, rank: int, width: int) -> Any:
    """Return the ``rank``-th largest of ``keys``, which agree above their low ``width`` bits; reorder them.

    1 <= rank <= keys.size.
    """
    counts = np.empty((4, DIGITS), np.int32)
    n = keys.size
    while n > MAX_SORTED_SIZE and width > 0:
        shift = max(width - DIGIT_BITS, 0)
        _count_digits(keys[:n], shift, counts)
        digit, rank = _find_digit(counts, rank)
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
def count_above_and_equal(keys: Array, threshold: int) -> tuple[int, int]:
    """Count the ``keys`` above a threshold, and those equal to it."""
    least = U64(threshold)
    more = equal = 0
    for i in range(keys.size):
        more += U64(keys[i]) > least
        equal += U64(keys[i]) == least
    return more, equal


@kernel
def find_threshold(keys: Array, rank: int, width: int) -> tuple[int, int]:
    """Return the ``rank``-th largest of ``keys``, and the number of equal keys among the ``rank`` largest.

    The keys agree above their low ``width`` bits. Returns (0, 0) if there is no such rank.
    """
    if not 1 <= rank <= keys.size:
        return U64(0), 0
    threshold = U64(select_kth(keys.copy(), rank, width))
    return threshold, rank - count_above_and_equal(keys, threshold)[0]


@inline
def _prefix_mask(bits: Array, at: int, prefix: np.uint64, left: int) -> np.uint64:
    """Return the mask of those of 64 elements whose key is ``prefix`` above its low ``left`` bits."""
    if left + 1 >= bit_width(bits):
        return ~U64(0)
    return mask_to_bits(((load(bits, at, 64) << 1) >> U64(left + 1)) == prefix)


@inline
def _count_64_digits(digits: Array, at: int, counts: Array) -> None:
    """Count 64 digits: by masks if two values make up half of them, else one by one."""
    all_digits = load(digits, at, 64)
    first = U64(digits[at])
    firsts = mask_to_bits(all_digits == np.uint16(first))
    second = U64(digits[at + (trailing_zeros(~firsts) & 63)])
    seconds = mask_to_bits(all_digits == np.uint16(second)) & ~firsts
    rest = ~(firsts | seconds)
    if popcount(rest) > 32:
        for i in range(at, at + 64, ROWS):
            for row in range(ROWS):
                counts[row, U64(digits[i + row])] += 1
        return
    counts[0, first] += popcount(firsts)
    counts[1, second] += popcount(seconds)
    rounds = 0
    while rest != U64(0) and rounds < 6:
        other = U64(digits[at + trailing_zeros(rest)])
        others = mask_to_bits(all_digits == np.uint16(other)) & rest
        counts[2 + (rounds & 1), other] += popcount(others)
        rest ^= others
        rounds += 1
    while rest != U64(0):
        i = trailing_zeros(rest)
        counts[i & (ROWS - 1), U64(digits[at + i])] += 1
        rest &= rest - U64(1)


@inline
def _count_prefixed(
    bits: Array, prefix: np.uint64, left: int, shift: int, digits: Array, counts: Array
) -> None:
    """Count the bits from ``shift`` to ``left`` of the keys that equal ``prefix`` above, over all rows.

    The digits are first compacted in ``digits``.
    """
    upper = U64(bit_width(bits) - left)
    whole = bits.size & ~63
    for start in range(0, whole, BLOCK_SIZE):
        n = 0
        for at in range(start, min(start + BLOCK_SIZE, whole), 64):
            prefetch_ahead(bits, at + PREFETCH_ELEMENTS, 64)
            digit = resize((load(bits, at, 64) << upper) >> (upper + U64(shift)), 16)
            sharing = _prefix_mask(bits, at, prefix, left)
            if sharing == ~U64(0):
                store(digits, n, digit)
                n += 64
            elif sharing != U64(0):
                n += compress_store(digits, n, digit, sharing)
        for at in range(0, n & ~63, 64):
            _count_64_digits(digits, at, counts)
        for i in range(n & ~63, n):
            counts[i & (ROWS - 1), U64(digits[i])] += 1
    for i in range(whole, bits.size):
        key = U64(bits[i]) & ((U64(1) << U64(bit_width(bits) - 1)) - U64(1))
        if key >> U64(left) == prefix:
            counts[0, (key >> U64(shift)) & U64((1 << (left - shift)) - 1)] += 1


@kernel
def find_threshold_by_digits(bits: Array, k: int) -> tuple[int, int]:
    """Return the k-th largest key of ``bits``, and the number of equal keys in the top k.

    A key is an element's bits without the sign; 1 <= k <= size. One pass per 11 bits, for any input.
    """
    counts = np.empty((ROWS, DIGITS), np.int32)
    total = np.empty((1, DIGITS), np.int64)
    digits = np.empty(BLOCK_SIZE + 64, np.uint16)
    found = U64(0)
    left = bit_width(bits) - 1
    while left > 0:
        shift = max(left - DIGIT_BITS, 0)
        total[:] = 0
        for start in range(0, bits.size, MAX_PART_SIZE):
            counts[:] = 0
            _count_prefixed(bits[start : start + MAX_PART_SIZE], found, left, shift, digits, counts)
            for row in range(ROWS):
                total[0] += counts[row]
        digit, k = _find_digit(total, k)
        found = U64((found << U64(left - shift)) | U64(digit))
        left = shift
    return found, k
