"""Bitmaps from indices and from dense arrays, and back to indices, a 64-bit word at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits
from wirecodec.kernels.cpu.simd.words import load64, popcount
from wirecodec.kernels.cpu.threads import next_unit, run_parallel

__all__ = ["copied_bits", "count_ones", "nonzero_bits", "positions", "set_bits"]

U64 = np.uint64

BLOCK = 1024
"""Words that a thread takes at a time."""

LEAST_MARKED, LEAST_COPIED, LEAST_FOUND = 8, 64, 16
"""Blocks that are worth a thread: to make of an array, to copy, to read."""


@kernel
def set_bits(indices: Array, words: Array) -> None:
    """Set the bits ``indices``, ascending, in the zeroed u64 ``words``."""
    word, at = U64(0), U64(0)
    for i in range(indices.size):
        index = U64(indices[i])
        # All bits of the same word so far: no branch, and nothing is read back.
        word = (word & (U64(0) - U64((index >> U64(6)) == at))) | U64(1) << (index & U64(63))
        at = index >> U64(6)
        words[at] = word


@kernel
def count_ones(words: Array) -> int:
    """How many bits of the u64 words are set."""
    count = 0
    for i in range(words.size):
        count += popcount(words[i])
    return count


def nonzero_bits(bits: Array) -> tuple[Array, Array]:
    """Which elements of flat ``bits`` (unsigned, any width) are not 0; one read of them.

    Returns the bitmap (u64, bits beyond the last element 0), and the ones up to the end of each block of it.
    """
    words = np.empty(-(-bits.size // 64), np.uint64)
    counts = np.empty(-(-words.size // BLOCK), np.int64)
    run_parallel(lambda turns: _nonzero_bits(bits, words, counts, turns), counts.size, LEAST_MARKED)
    return words, counts.cumsum()


def copied_bits(section: Array) -> tuple[Array, Array]:
    """The bytes of a bitmap as u64 words, zeros beyond; the ones up to the end of each block of them.

    A copy, because ``positions`` trusts the words to have these ones.
    """
    words = np.empty(-(-section.size // 8), np.uint64)
    counts = np.empty(-(-words.size // BLOCK), np.int64)
    run_parallel(lambda turns: _copied_bits(section, words, counts, turns), counts.size, LEAST_COPIED)
    return words, counts.cumsum()


def positions(words: Array, ends: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers of the set bits of the u64 words, ascending.

    Args:
        words: a bitmap.
        ends: its ones up to the end of each block.
        dtype: int32 or int64.
    """
    out = np.empty(ends[-1] if ends.size else 0, dtype)
    run_parallel(lambda turns: _positions(words, ends, out, turns), ends.size, LEAST_FOUND)
    return out


@kernel
def _nonzero_bits(bits: Array, words: Array, counts: Array, turns: Array) -> None:
    """See ``nonzero_bits``."""
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
def _copied_bits(section: Array, words: Array, counts: Array, turns: Array) -> None:
    """See ``copied_bits``."""
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
def _positions(words: Array, ends: Array, out: Array, turns: Array) -> None:
    """See ``positions``."""
    last = np.empty(64, out.dtype)
    block = next_unit(turns, -1)
    while block >= 0:
        n = ends[block - 1] if block > 0 else 0
        end = ends[block]
        i = block * BLOCK
        while n + 64 <= end:
            n += store_set_bits(out, n, words[i], i << 6)
            i += 1
        while n < end:  # store_set_bits may overwrite the next block
            found = store_set_bits(last, 0, words[i], i << 6)
            for j in range(found):
                out[n + j] = last[j]
            n += found
            i += 1
        block = next_unit(turns, block)
