"""Kernels of the Bloom index codec (formats/spec/index/bloom.md): insert, query all elements, select.

The 64 elements of a group share k windows of 8 filter bytes, so that one AND of k rotated words answers for
all of them. In memory a filter of L bytes is followed by ``BLOOM_PAD`` more, the first 7 of which repeat its
start, so that no window wraps. A query covers a block of groups per call, because Numba counts the references
of every array argument, and that costs more than the query of one group.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.prng import draw32, splitmix_finalize
from wirecodec.kernels.cpu.simd.words import load64, popcount, rotate_left, store64, trailing_zeros
from wirecodec.kernels.layout import BLOOM_PAD

U32 = np.uint32
U64 = np.uint64

_STEP = 0x9E3779B97F4A7C15
_STEPS_PER_GROUP = 16 * _STEP % 2**64
_LOW_HALF = 0xFFFFFFFF
_GROUPS_PER_CALL = 256


@inline
def seed_of(group: int) -> U64:
    """Return the generator state from which a group's windows are drawn."""
    return U64(U64(group) * U64(_STEPS_PER_GROUP))


@inline
def window(half: U64, length: U64) -> tuple[int, U64]:
    """Return a window's (first byte, rotation) in a filter of ``length`` bytes, from 32 random bits."""
    return np.int64(((half >> U64(6)) * length) >> U64(26)), half & U64(63)


@inline
def next_window(j: int, z: U64, word: U64, length: U64) -> tuple[int, U64, U64, U64]:
    """Compute window j of a group; the windows must be computed in order.

    Args:
        j: number of the window, from 0 on.
        z: generator state, ``seed_of(group)`` for j = 0.
        word: random bits of two windows; ignored for j = 0.
        length: bytes of the filter.

    Returns:
        (first byte, rotation, next ``z``, next ``word``).
    """
    if j & 1:
        word >>= U64(32)
    else:
        z = U64(z + U64(_STEP))
        word = splitmix_finalize(z)
    at, rotation = window(word & U64(_LOW_HALF), length)
    return at, rotation, z, word


@kernel
def insert(indices: Array, filter_: Array, k: int) -> None:
    """Insert (n,) u32 ascending ``indices`` into a zeroed filter, and fill its padding."""
    length = filter_.size - BLOOM_PAD
    i = 0
    while i < indices.size:
        group = indices[i] >> U32(6)
        members = U64(0)
        while i < indices.size and indices[i] >> U32(6) == group:
            members |= U64(1) << U64(indices[i] & U32(63))
            i += 1
        z = seed_of(group)
        word = U64(0)
        for j in range(k):
            at, rotation, z, word = next_window(j, z, word, U64(length))
            store64(filter_, at, load64(filter_, at) | rotate_left(members, U64(64) - rotation))
    for byte in range(BLOOM_PAD - 1):
        filter_[byte] |= filter_[length + byte]
    for byte in range(BLOOM_PAD - 1):
        filter_[length + byte] = filter_[byte]


@inline
def _query(filter_: Array, k: int, d: int, first: int, masks: Array) -> int:
    """Query the groups from ``first`` on into ``masks``, one bit per element, and return their number."""
    length = U64(filter_.size - BLOOM_PAD)
    groups = min(masks.size, ((d + 63) >> 6) - first)
    for i in range(groups):
        z = seed_of(first + i)
        mask = U64(0xFFFFFFFFFFFFFFFF)
        for _ in range(k >> 1):
            z = U64(z + U64(_STEP))
            word = splitmix_finalize(z)
            at, rotation = window(word & U64(_LOW_HALF), length)
            mask &= rotate_left(load64(filter_, at), rotation)
            at, rotation = window(word >> U64(32), length)
            mask &= rotate_left(load64(filter_, at), rotation)
        if k & 1:
            at, rotation = window(splitmix_finalize(U64(z + U64(_STEP))) & U64(_LOW_HALF), length)
            mask &= rotate_left(load64(filter_, at), rotation)
        masks[i] = mask
    if (first + groups) << 6 > d:
        masks[groups - 1] &= (U64(1) << U64(d & 63)) - U64(1)
    return groups


@kernel
def count(filter_: Array, k: int, d: int) -> int:
    """Count the elements 0 … d - 1 that the filter holds."""
    masks = np.empty(_GROUPS_PER_CALL, np.uint64)
    found = 0
    for first in range(0, (d + 63) >> 6, _GROUPS_PER_CALL):
        for i in range(_query(filter_, k, d, first, masks)):
            found += popcount(masks[i])
    return found


@kernel
def fill(filter_: Array, k: int, d: int, skip: int, out: Array) -> int:
    """List elements that the filter holds, and return how many it holds in total.

    Args:
        filter_: (length + BLOOM_PAD,) u8, padded.
        k: windows per element.
        d: elements of the chunk.
        skip: number of elements to leave out first.
        out: (n,) u32, written: the next n elements, ascending.
    """
    masks = np.empty(_GROUPS_PER_CALL, np.uint64)
    stop = skip + out.size
    found = 0
    for first in range(0, (d + 63) >> 6, _GROUPS_PER_CALL):
        for i in range(_query(filter_, k, d, first, masks)):
            mask = masks[i]
            ones = popcount(mask)
            if found + ones > skip and found < stop:
                element = U32((first + i) << 6)
                n = found - skip
                while mask != U64(0):
                    if 0 <= n < out.size:
                        out[n] = element + U32(trailing_zeros(mask))
                    n += 1
                    mask &= mask - U64(1)
            found += ones
    return found


@kernel
def sample(filter_: Array, k: int, d: int, total: int, low: U32, high: U32, out: Array) -> int:
    """Draw ``out.size`` of the elements that the filter holds by selection sampling (Knuth, algorithm S).

    Args:
        filter_: (length + BLOOM_PAD,) u8, padded.
        k: windows per element.
        d: elements of the chunk.
        total: number of elements that the filter holds.
        low: low half of the random stream.
        high: high half of the random stream.
        out: (n,) u32, written, ascending.

    Returns:
        The number of elements drawn.
    """
    masks = np.empty(_GROUPS_PER_CALL, np.uint64)
    drawn = 0
    i = 0
    for first in range(0, (d + 63) >> 6, _GROUPS_PER_CALL):
        for group in range(_query(filter_, k, d, first, masks)):
            mask = masks[group]
            while mask != U64(0):
                if drawn == out.size or i == total:
                    return drawn
                rank = np.int64((U64(draw32(low, high, U32(i))) * U64(total - i)) >> U64(32))
                if rank < out.size - drawn:
                    out[drawn] = U32((first + group) << 6) + U32(trailing_zeros(mask))
                    drawn += 1
                i += 1
                mask &= mask - U64(1)
    return drawn
