"""The k-th largest of some thousand keys: bisection, by counting keys at the speed of the cache.

It costs less than the tables of ``radix`` until the keys outgrow the cache. The search starts an octave below
the largest key. When few keys are left between the bounds, they are collected, and only these are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.masks64 import above64, at_least64, keys64
from wirecodec.kernels.cpu.simd.memory import bit_width
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, select, store
from wirecodec.kernels.cpu.simd.words import popcount

U64 = np.uint64
SLACK = 64
OCTAVE = 9
"""Bits of a float32 above its mantissa: the search starts a factor of 2 below the largest key."""
MIN_COLLECTED = 512
"""Keys whose collection costs less than it saves."""
REDUCTION = 8
"""Keys per key that is left when they are collected."""
COARSE = 14
"""Bits of a key that ``rank_of_maxima`` finds: of a float32, five of the mantissa."""
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
def _find_largest(keys: Array) -> np.uint64:
    """Return the largest key, which is 0 if there are no keys."""
    if keys.size == 0:
        return U64(0)
    most = load(keys, 0, 64)
    for at in range(64, keys.size, 64):
        here = load(keys, at, 64)
        most = select(most > here, most, here)
    return U64(reduce_max(most))


@inline
def find_rank(
    keys: Array, rank: int, low: np.uint64, high: np.uint64, step: np.uint64
) -> tuple[np.uint64, int]:
    """Return a key that the ``rank`` largest reach, and the number of keys that reach it.

    It is the rank-th largest, unless a smaller one is known to separate exactly ``rank`` keys from the rest.

    Args:
        keys: padded by ``pad``, without sign bits.
        rank: 1 or more.
        low: a key that ``rank`` keys or more reach.
        high: a number above ``low`` that fewer keys reach.
        step: 1 for the exact result. Otherwise, the result may be too small by less than ``step``.
    """
    width = U64(1) << U64(bit_width(keys) - OCTAVE)
    if high - low > width:
        high = min(high, max(_find_largest(keys), low) + U64(1))
    removed, above, reached = 0, 0, -1
    while high - low > step:
        half = (high - low) >> U64(1)
        middle = high - min(half, width)
        n = removed + _count(keys, middle)
        if n >= rank:
            low, reached, width = middle, n, ~U64(0)
            if n == rank:
                break
        else:
            high, above = middle, n
            if width < half:
                width <<= U64(1)
        if keys.size >= MIN_COLLECTED and reached >= 0 and REDUCTION * (reached - above) <= keys.size:
            keys, removed = collect_keys(keys, low, high - U64(1)), above
    return low, reached if reached >= 0 else removed + _count(keys, low)


@inline
def collect_keys(keys: Array, least: np.uint64, most: np.uint64) -> Array:
    """Return the keys from ``least`` to ``most``, padded by ``pad``; ``keys`` is padded, too."""
    found, n = np.empty(keys.size + SLACK, keys.dtype), 0
    for at in range(0, keys.size, 64):
        mask = at_least64(keys, at, least) & ~above64(keys, at, most)
        if mask != U64(0):
            n += compress_store(found, n, load(keys, at, 64), mask)
    return found[: pad(found, n)]


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
    """Return a key that ``rank`` maxima reach, and few others do."""
    width = bit_width(maxima)
    step = U64(1) << U64(width - COARSE) if width > 16 else U64(1)
    return find_rank(maxima, rank, U64(0), U64(1) << U64(width - 1), step)[0]
