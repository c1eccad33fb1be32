"""Bitmaps from indices and from dense arrays, and back to indices, a 64-bit word at a time."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.ones import store_ones
from wirecodec.kernels.cpu.vector import load, mask_bits
from wirecodec.kernels.cpu.words import popcount

__all__ = ["count_ones", "nonzero_bits", "positions", "set_bits"]

U64 = np.uint64


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
def nonzero_bits(bits: Array, words: Array) -> int:
    """Which elements of ``bits`` (unsigned, any width) are not 0, as u64 words; how many."""
    count = 0
    whole = bits.size >> 6
    for i in range(whole):
        words[i] = mask_bits(load(bits, i << 6, 64) != 0)
        count += popcount(words[i])
    if whole < words.size:
        word = U64(0)
        for i in range(whole << 6, bits.size):
            word |= U64(bits[i] != 0) << U64(i & 63)
        words[whole] = word
        count += popcount(word)
    return count


@kernel
def count_ones(words: Array) -> int:
    """How many bits of the u64 words are set."""
    count = 0
    for i in range(words.size):
        count += popcount(words[i])
    return count


@kernel
def positions(words: Array, first: int, out: Array) -> None:
    """The numbers of the set bits of the u64 words, ascending, into ``out``, which has exactly that room.

    Args:
        words: a bitmap, or words of one.
        first: the number of the first bit.
        out: int32 or int64, written.
    """
    n = 0
    i = 0
    while i < words.size and n + 64 <= out.size:
        n += store_ones(out, n, words[i], first + (i << 6))
        i += 1
    rest = np.empty(64, out.dtype)
    while i < words.size and n < out.size:
        found = min(store_ones(rest, 0, words[i], first + (i << 6)), out.size - n)
        for j in range(found):
            out[n + j] = rest[j]
        n += found
        i += 1
