"""Exact top-k: sweeps over the array, and over the candidates.

A key is an element's bits without the sign. It orders as the magnitude does, so all of this is integer work
on 64 keys at a time. Buffers "with slack" have ``SLACK`` elements more than they are to hold.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import find_rank, pad
from wirecodec.kernels.cpu.select.radix import find_threshold
from wirecodec.kernels.cpu.select.terms import (
    BLOCK_SIZE,
    SLACK,
    sweep_range,
)
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.masks64 import above64, at_least64
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, bit_width, prefetch_ahead
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load
from wirecodec.kernels.cpu.simd.words import leading_zeros, popcount, trailing_zeros
from wirecodec.kernels.term_forms import IDENTITY

I32 = np.int32
U32 = np.uint32
U64 = np.uint64
MAX_BISECTED = 2**15  # keys up to which bisection is faster than counting digits
NO_FACTORS = (1.0, 1.0, 1.0)

sweep_array = sweep_range[IDENTITY]


@inline
def key_of(bits: Array, i: int) -> np.uint64:
    """Return the key of one element."""
    return U64(bits[i]) & ((U64(1) << U64(bit_width(bits) - 1)) - U64(1))


@kernel
def sweep(bits: Array, low: int, found: Array, words: Array) -> int:
    """Collect the positions of keys of ``low`` or more, and the bits there.

    Args:
        bits: fewer than 2^31 elements.
        low: a threshold.
        found: int32, with slack; receives the positions.
        words: as many, of the type of ``bits``; receives the bits.

    Returns their number, or -1 if the buffers are too small.
    """
    n = sweep_array(
        bits, bits, bits, NO_FACTORS, U64(low), words, words, U64(0), found, words, 0, 0, 0, bits.size
    )
    return n if n <= found.size - 2 * SLACK else -1


@kernel
def collect(bits: Array, low: int, high: int, keys: Array) -> tuple[int, int]:
    """Count the keys of ``high`` or more, and collect those from ``low`` to below ``high`` in ``keys``.

    Returns both numbers; the second is -1 if ``keys`` is too small.
    """
    least, upper = U64(low), U64(high)
    certain = n = 0
    whole = bits.size & ~63
    for at in range(0, whole, 64):
        if n > keys.size - SLACK:
            return certain, -1
        prefetch_ahead(bits, at + PREFETCH_ELEMENTS, 64)
        certain_mask = at_least64(bits, at, upper)
        certain += popcount(certain_mask)
        rest = at_least64(bits, at, least) & ~certain_mask
        if rest != U64(0):
            n += compress_store(keys, n, (load(bits, at, 64) << 1) >> 1, rest)
    if n > keys.size - SLACK:
        return certain, -1
    for i in range(whole, bits.size):
        key = key_of(bits, i)
        if key >= upper:
            certain += 1
        elif key >= least:
            keys[n] = key
            n += 1
    return certain, n


@inline
def top_mask(bits: Array, at: int, threshold: np.uint64, ties: int) -> tuple[np.uint64, int]:
    """Return the mask of the keys of bits[at] ... above a threshold or among the first ``ties`` equal to it.

    Returns the remaining ties as well.
    """
    more = above64(bits, at, threshold)
    if ties == 0:
        return more, ties
    equal = at_least64(bits, at, threshold) & ~more
    for _ in range(popcount(equal) - ties):
        equal ^= U64(1) << U64(63 - leading_zeros(equal))
    return more | equal, ties - popcount(equal)


@kernel
def keep(found: Array, words: Array, least: int, ties: int, start: int, indices: Array, values: Array) -> int:
    """Keep the swept elements with keys above ``least`` and the first ``ties`` equal to it.

    Args:
        found: positions.
        words: the bits there.
        least: the smallest key to keep.
        ties: how many of the keys equal to ``least`` are kept.
        start: added to every position.
        indices: int32, of exactly the number to keep; written.
        values: as many, of the type of ``words``; written.

    Returns their number, or -1 if the array changed.
    """
    threshold = U64(least)
    n = 0
    whole = words.size & ~63
    at = 0
    while at < whole and n < indices.size:
        mask, ties = top_mask(words, at, threshold, ties)
        if n + 64 <= indices.size:
            compress_store(values, n, load(words, at, 64), mask)
            n += compress_store(indices, n, load(found, at, 64) + start, mask)
        else:
            if n + popcount(mask) > indices.size:  # another thread changed the array
                return -1
            while mask != U64(0):
                i = at + trailing_zeros(mask)
                indices[n], values[n] = found[i] + start, words[i]
                n += 1
                mask &= mask - U64(1)
        at += 64
    if n == indices.size:
        return n
    for i in range(at, words.size):
        key = key_of(words, i)
        tie = key == threshold and ties > 0
        if key > threshold or tie:
            if n == indices.size:  # another thread changed the array
                return -1
            ties -= tie
            indices[n], values[n] = found[i] + start, words[i]
            n += 1
    return n


@kernel
def keep_top_k(found: Array, words: Array, k: int, low: int, high: int) -> int:
    """Keep the top k of the elements that ``sweep`` collected, in its own buffers.

    Args:
        found: positions, k or more.
        words: the bits there, all with keys from ``low`` on.
        k: the number to keep.
        low: a key.
        high: a key that fewer than k keys very probably reach.

    Returns their number, which is k.
    """
    threshold, ties = find_top(words, k, low, high)
    return keep(found, words, threshold, ties, 0, found[:k], words[:k])


@inline
def find_top(words: Array, k: int, low: int, high: int) -> tuple[int, int]:
    """Return the k-th largest key of the elements that ``sweep`` collected, and the ties in the top k.

    ``words``, ``k``, ``low`` and ``high`` are as for ``keep_top_k``.
    """
    keys = np.empty(words.size + SLACK, words.dtype)
    certain = n = 0
    for attempt in range(2):  # a loop, so that the sweep is compiled once
        certain, n = collect(words, low, high, keys)
        if certain < k:
            break
        high = np.int64((U64(1) << U64(bit_width(words) - 1)) - U64(1))
        if attempt > 0:  # all of them are the same NaN
            return high, k
    width, rank = 64 - leading_zeros(U64(low) ^ U64(high)), k - certain
    if n > MAX_BISECTED or not 1 <= rank <= n:
        threshold, ties = find_threshold(keys[:n], rank, width)
        return np.int64(threshold), ties
    least, reached = find_rank(keys[: pad(keys, n)], rank, U64(low), U64(high), U64(1))
    if reached == rank and least > U64(0):
        return np.int64(least) - 1, 0
    return np.int64(least), rank - _count_above(keys[:n], least)


@inline
def _count_above(keys: Array, threshold: np.uint64) -> int:
    """Count the keys above a threshold."""
    more = 0
    for i in range(keys.size):
        more += U64(keys[i]) > threshold
    return more


@kernel
def fill(bits: Array, least: int, ties: int, indices: Array, values: Array) -> tuple[int, int]:
    """Apply ``sweep`` and ``keep`` in one pass, for a known threshold.

    ``indices`` and ``values`` have slack. Returns the number of elements, or -1 if the buffers are too small,
    and the remaining ties.
    """
    threshold = U64(least)
    n = 0
    k = indices.size - SLACK
    whole = bits.size & ~63
    for block in range(0, whole, BLOCK_SIZE):
        first = n
        for at in range(block, min(block + BLOCK_SIZE, whole), 64):
            prefetch_ahead(bits, at + PREFETCH_ELEMENTS, 64)
            mask, ties = top_mask(bits, at, threshold, ties)
            n += store_set_bits(indices, n, mask, U32(at))
            if n > k:  # another thread changed the array
                return -1, ties
        for i in range(first, n):
            values[i] = bits[U64(U32(indices[i]))]
        if n == k:
            return n, ties
    for i in range(whole, bits.size):
        key = key_of(bits, i)
        tie = key == threshold and ties > 0
        if key > threshold or tie:
            if n == k:
                return -1, ties
            ties -= tie
            indices[n], values[n] = i, bits[i]
            n += 1
    return n, ties


@inline
def has_nonfinite(words: Array, infinity: int) -> bool:
    """Return whether one of the elements is NaN or Inf."""
    found = False
    for j in range(words.size):
        found |= key_of(words, j) >= U64(infinity)
    return found
