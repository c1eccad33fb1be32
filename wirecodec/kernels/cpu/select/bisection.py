"""The k-th largest of some thousand keys: one bit at a time, by counting keys at the speed of the cache.

A pass per bit costs less than the tables of ``radix`` until the keys outgrow the cache. Most searches end
after half of the bits, because no two keys share them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline
from wirecodec.kernels.cpu.simd.masks64 import at_least64, keys64
from wirecodec.kernels.cpu.simd.memory import bit_width
from wirecodec.kernels.cpu.simd.vector import load, select, store
from wirecodec.kernels.cpu.simd.words import popcount

__all__ = ["bound_rank", "count_groups", "find_rank", "pad", "rank_of_maxima", "update_maxima"]

U64 = np.uint64
GROUPS_PER_RANK = 2
MIN_GROUP_SIZE = 4


@inline
def pad(keys: Array, n: int) -> int:
    """Set the keys from n to the next multiple of 64 to 0; return that multiple."""
    stop = (n + 63) & ~63
    for i in range(n, stop):
        keys[i] = 0
    return stop


@inline
def _count(keys: Array, least: np.uint64) -> int:
    """Count the keys of ``least`` or more, 64 at a time."""
    n = 0
    for at in range(0, keys.size, 64):
        n += popcount(at_least64(keys, at, least))
    return n


@inline
def find_rank(keys: Array, rank: int, prefix: np.uint64, width: int) -> tuple[np.uint64, int]:
    """Return a key that the ``rank`` largest reach, and the number of keys that reach it.

    It is the rank-th largest, unless a smaller one is known to separate exactly ``rank`` keys from the rest.

    Args:
        keys: padded by ``pad``; ``rank`` of them or more are ``prefix`` or more.
        rank: 1 or more.
        prefix: bits of all keys above their low ``width`` bits; the low bits are 0.
        width: number of bits to find.
    """
    found, n = prefix, -1
    for bit in range(width - 1, -1, -1):
        larger = found | (U64(1) << U64(bit))
        reached = _count(keys, larger)
        if reached >= rank:
            found, n = larger, reached
            if n == rank:
                return found, n
    return found, n if n >= 0 else _count(keys, found)


@inline
def bound_rank(bits: Array, rank: int) -> np.uint64:
    """Return a key that ``rank`` elements reach and, unless their order is unlucky, few others; or 0.

    It is the rank-th largest of the maxima of groups. Two passes over the array cost less than its bisection.
    """
    groups = count_groups(bits.size, rank)
    if groups == 0:
        return U64(0)
    maxima = np.zeros(groups, bits.dtype)
    for at in range(0, bits.size & ~63, 64):
        update_maxima(maxima, at, keys64(bits, at))
    return rank_of_maxima(maxima, rank)


@inline
def count_groups(size: int, rank: int) -> int:
    """Return the number of groups of ``bound_rank``, a power of two; 0 if there are too few elements."""
    groups = 64
    while groups < GROUPS_PER_RANK * rank:
        groups *= 2
    return groups if MIN_GROUP_SIZE * groups <= size else 0


@inline
def update_maxima(maxima: Array, at: int, keys: Any) -> None:
    """Compare 64 keys, of the elements from a multiple of 64 on, with the maxima of their groups."""
    slot = at & (maxima.size - 1)
    before = load(maxima, slot, 64)
    store(maxima, slot, select(before > keys, before, keys))


@inline
def rank_of_maxima(maxima: Array, rank: int) -> np.uint64:
    """Return a key that ``rank`` maxima reach."""
    return find_rank(maxima, rank, U64(0), bit_width(maxima) - 1)[0]
