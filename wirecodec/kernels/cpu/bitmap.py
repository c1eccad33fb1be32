"""Bitmaps to indices and back, a 64-bit word at a time."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.words import popcount, trailing_zeros

__all__ = ["count_ones", "positions", "set_bits"]

U64 = np.uint64


@kernel
def set_bits(indices: Array, words: Array) -> None:
    """Set the bits ``indices`` in the zeroed u64 ``words``."""
    for i in range(indices.size):
        index = U64(indices[i])
        words[index >> U64(6)] |= U64(1) << (index & U64(63))


@kernel
def count_ones(words: Array) -> int:
    """How many bits of the u64 words are set."""
    count = 0
    for i in range(words.size):
        count += popcount(words[i])
    return count


@kernel
def positions(words: Array, out: Array) -> None:
    """The numbers of the set bits of the u64 words, ascending, into u32 ``out``, which has that room."""
    n = 0
    for i in range(words.size):
        word = words[i]
        while word != U64(0):
            out[n] = np.uint32((i << 6) + trailing_zeros(word))
            n += 1
            word &= word - U64(1)
