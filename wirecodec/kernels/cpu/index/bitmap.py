"""Conversions between bitmaps, indices and dense arrays, one 64-bit word at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits
from wirecodec.kernels.cpu.simd.words import load64, popcount
from wirecodec.kernels.cpu.threads import next_unit, run_parallel

U64 = np.uint64

BLOCK = 1024
"""Words per unit of work of a thread."""

MIN_BLOCKS_NONZERO, MIN_BLOCKS_COPY, MIN_BLOCKS_POSITIONS = 8, 64, 16
"""Blocks per thread below which ``find_nonzero``, ``copy_bitmap`` and ``find_positions`` start no thread."""


@kernel
def set_bits(indices: Array, words: Array) -> None:
    """Set the bits at ascending ``indices`` in the zeroed u64 ``words``."""
    word, at = U64(0), U64(0)
    for i in range(indices.size):
        index = U64(indices[i])
        # ``word`` holds the bits of this word so far, so that there is no branch and no read from memory.
        word = (word & (U64(0) - U64((index >> U64(6)) == at))) | U64(1) << (index & U64(63))
        at = index >> U64(6)
        words[at] = word


@kernel
def count_ones(words: Array) -> int:
    """Count the set bits of the u64 words."""
    count = 0
    for i in range(words.size):
        count += popcount(words[i])
    return count


def find_nonzero(bits: Array) -> tuple[Array, Array]:
    """Mark the nonzero elements of an array in a bitmap, in one pass.

    Args:
        bits: (n,) unsigned, of any width.

    Returns:
        (the bitmap as u64 words, zero beyond the last element; the count of set bits up to the end of each
        block).
    """
    words = np.empty(-(-bits.size // 64), np.uint64)
    counts = np.empty(-(-words.size // BLOCK), np.int64)
    run_parallel(lambda turns: _find_nonzero(bits, words, counts, turns), counts.size, MIN_BLOCKS_NONZERO)
    return words, counts.cumsum()


def copy_bitmap(section: Array) -> tuple[Array, Array]:
    """Copy a bitmap into u64 words, and count its bits.

    It is copied because ``find_positions`` trusts the counts.

    Args:
        section: (n,) u8, the bitmap.

    Returns:
        (the u64 words, zero beyond the bitmap; the count of set bits up to the end of each block).
    """
    words = np.empty(-(-section.size // 8), np.uint64)
    counts = np.empty(-(-words.size // BLOCK), np.int64)
    run_parallel(lambda turns: _copy_bitmap(section, words, counts, turns), counts.size, MIN_BLOCKS_COPY)
    return words, counts.cumsum()


def find_positions(words: Array, ends: Array, dtype: np.dtype[Any]) -> Array:
    """Return the positions of the set bits, ascending.

    Args:
        words: (n,) u64, a bitmap.
        ends: the count of set bits up to the end of each block.
        dtype: type of the positions, int32 or int64.
    """
    out = np.empty(ends[-1] if ends.size else 0, dtype)
    run_parallel(lambda turns: _find_positions(words, ends, out, turns), ends.size, MIN_BLOCKS_POSITIONS)
    return out


@kernel
def _find_nonzero(bits: Array, words: Array, counts: Array, turns: Array) -> None:
    """See ``find_nonzero``."""
    whole = bits.size >> 6
    block = next_unit(turns, -1)
    while block >= 0:
        count = 0
        stop = min((block + 1) * BLOCK, words.size)
        for i in range(block * BLOCK, min(stop, whole)):
            words[i] = mask_to_bits(load(bits, i << 6, 64) != 0)
            count += popcount(words[i])
        if stop > whole:
            word = U64(0)
            for i in range(whole << 6, bits.size):
                word |= U64(bits[i] != 0) << U64(i & 63)
            words[whole] = word
            count += popcount(word)
        counts[block] = count
        block = next_unit(turns, block)


@kernel
def _copy_bitmap(section: Array, words: Array, counts: Array, turns: Array) -> None:
    """See ``copy_bitmap``."""
    whole = section.size >> 3
    block = next_unit(turns, -1)
    while block >= 0:
        count = 0
        stop = min((block + 1) * BLOCK, words.size)
        for i in range(block * BLOCK, min(stop, whole)):
            words[i] = load64(section, i << 3)
            count += popcount(words[i])
        if stop > whole:
            word = U64(0)
            for i in range(whole << 3, section.size):
                word |= U64(section[i]) << U64(8 * (i & 7))
            words[whole] = word
            count += popcount(word)
        counts[block] = count
        block = next_unit(turns, block)


@kernel
def _find_positions(words: Array, ends: Array, out: Array, turns: Array) -> None:
    """See ``find_positions``."""
    last = np.empty(64, out.dtype)
    block = next_unit(turns, -1)
    while block >= 0:
        n = ends[block - 1] if block > 0 else 0
        end = ends[block]
        i = block * BLOCK
        while n + 64 <= end:
            n += store_set_bits(out, n, words[i], i << 6)
            i += 1
        while n < end:  # Near the end, store_set_bits would overwrite another block's part of ``out``.
            found = store_set_bits(last, 0, words[i], i << 6)
            for j in range(found):
                out[n + j] = last[j]
            n += found
            i += 1
        block = next_unit(turns, block)
