"""Top of each chunk: its largest element, or the elements that reach a threshold found by counting.

The smallest key that is kept is bracketed by a key that enough elements reach and one that too few do. If few
are kept, maxima of blocks of 64 give the lower key, and only blocks that reach it are read again. Otherwise
elements are counted repeatedly, starting from the threshold of the previous chunk, which is close.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.masks64 import above64, at_least64, keys64, max_key64
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, bit_width, prefetch_ahead
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import bits_to_mask, load, reduce_max, select
from wirecodec.kernels.cpu.simd.words import leading_zeros, low_bits_mask, popcount, trailing_zeros

U64 = np.uint64

SLACK = 64
"""Elements that ``fill_chunks`` needs free beyond those it writes."""
MIN_BRACKET_SIZE = 16
"""Number of keys between two, or 1/64 of the chunk, below which they are sorted out individually."""


@inline_without_refcounts
def _key(bits: Array, i: int) -> np.uint64:
    """Return the key of one element."""
    return U64(bits[i]) & low_bits_mask(bit_width(bits) - 1)


@inline_without_refcounts
def _max_key(bits: Array, start: int, stop: int) -> np.uint64:
    """Return the largest key of at most 64 elements."""
    if start + 64 <= bits.size:
        if stop - start > 16:
            return U64(max_key64(bits, start, low_bits_mask(stop - start)))
        keys = (load(bits, start, 16) << 1) >> 1
        return U64(reduce_max(select(bits_to_mask(low_bits_mask(stop - start), 16), keys, keys ^ keys)))
    top = U64(0)
    for i in range(start, stop):
        top = max(top, _key(bits, i))
    return top


@inline_without_refcounts
def _mask_at_least(bits: Array, start: int, stop: int, least: np.uint64) -> np.uint64:
    """Return the mask of those of at most 64 elements with a key of ``least`` or more."""
    if start + 64 <= bits.size:
        return at_least64(bits, start, least) & low_bits_mask(stop - start)
    mask = U64(0)
    for i in range(start, stop):
        mask |= U64(_key(bits, i) >= least) << U64(i - start)
    return mask


@inline_without_refcounts
def _mask_above(bits: Array, start: int, stop: int, threshold: np.uint64) -> np.uint64:
    """Return the mask of those of at most 64 elements with a key above ``threshold``."""
    if start + 64 <= bits.size:
        return above64(bits, start, threshold) & low_bits_mask(stop - start)
    return _mask_at_least(bits, start, stop, threshold + U64(1))


@inline_without_refcounts
def _count_at_least(bits: Array, first: int, stop: int, least: np.uint64) -> int:
    """Count the elements with a key of ``least`` or more."""
    n = 0
    for start in range(first, stop, 64):
        n += popcount(_mask_at_least(bits, start, min(stop, start + 64), least))
    return n


@inline_without_refcounts
def _store_keys(bits: Array, start: int, mask: np.uint64, keys: Array, n: int) -> int:
    """Store the keys of those of 64 elements selected by ``mask``, from keys[n] on; return their number."""
    if start + 64 <= bits.size and popcount(mask) > 2:
        return compress_store(keys, n, keys64(bits, start), mask)
    count = 0
    while mask != U64(0):
        keys[n + count] = _key(bits, start + trailing_zeros(mask))
        count += 1
        mask &= mask - U64(1)
    return count


@inline_without_refcounts
def _bracket_kth(
    bits: Array, first: int, stop: int, m: int, guess: np.uint64, step: np.uint64
) -> tuple[np.uint64, np.uint64, int]:
    """Return a key that at least m elements reach, one that fewer do, and the number of the latter.

    Few keys, or only one, are between the two. ``guess`` and ``step`` are where the search starts.
    """
    low, high = U64(0), U64(1) << U64(bit_width(bits) - 1)
    reaching, certain = stop - first, 0
    max_between = max(MIN_BRACKET_SIZE, (stop - first) >> 6)
    key = guess
    while reaching - certain > max_between and high - low > U64(1):
        if not low < key < high:
            key = low + ((high - low) >> U64(1))
        n = _count_at_least(bits, first, stop, key)
        if n >= m:
            low, reaching = key, n
            key = key + step
        else:
            high, certain = key, n
            key = key - min(step, key)
        step = step << U64(1)
        if low > U64(0) and certain > 0:
            key = low + ((high - low) >> U64(1))
    return low, high, certain


@inline
def _select_kth(keys: Array, m: int, scratch: Array) -> np.uint64:
    """Return the m-th largest of ``keys``, digit by digit; ``scratch`` has at least as many elements."""
    left = keys.size
    for i in range(left):
        scratch[i] = keys[i]
    if m == 1 or left <= MIN_BRACKET_SIZE:
        for rank in range(m):
            best = rank
            for i in range(rank + 1, left):
                if scratch[i] > scratch[best]:
                    best = i
            scratch[rank], scratch[best] = scratch[best], scratch[rank]
        return U64(scratch[m - 1])
    counts = np.empty(256, np.int64)
    shift = bit_width(keys) - 8
    while True:
        counts[:] = 0
        for i in range(left):
            counts[(U64(scratch[i]) >> U64(shift)) & U64(255)] += 1
        digit = 255
        while counts[digit] < m:
            m -= counts[digit]
            digit -= 1
        kept = 0
        for i in range(left):
            scratch[kept] = scratch[i]
            kept += ((U64(scratch[i]) >> U64(shift)) & U64(255)) == U64(digit)
        left = kept
        if left == 1 or shift == 0:
            return U64(scratch[0])
        shift -= 8


@inline_without_refcounts
def _find_max(bits: Array, first: int, stop: int) -> tuple[np.uint64, int]:
    """Return the largest key, and its first position."""
    best, block = U64(0), first
    for start in range(first, stop, 64):
        prefetch_ahead(bits, start + PREFETCH_ELEMENTS, 64)
        top = _max_key(bits, start, min(stop, start + 64))
        if top > best:
            best, block = top, start
    return best, block + (trailing_zeros(_mask_at_least(bits, block, min(stop, block + 64), best)) & 63)


@inline_without_refcounts
def _store_block_maxima(bits: Array, first: int, stop: int, tops: Array) -> np.uint64:
    """Store the largest keys of blocks of 64; return the largest of all."""
    best = U64(0)
    for block, start in enumerate(range(first, stop, 64)):
        prefetch_ahead(bits, start + PREFETCH_ELEMENTS, 64)
        top = _max_key(bits, start, min(stop, start + 64))
        tops[block] = top
        best = max(best, top)
    return best


@inline
def _find_threshold(
    bits: Array,
    first: int,
    stop: int,
    tops: Array,
    low: np.uint64,
    high: np.uint64,
    m: int,
    keys: Array,
    scratch: Array,
) -> tuple[np.uint64, int]:
    """Return the m-th largest of the keys from ``low`` to below ``high``, and its rank among equal keys.

    Blocks with a maximum below ``low`` are skipped. The rank is 0 if there are fewer than m keys.
    """
    if high - low == U64(1):
        return low, m
    n = 0
    for block, start in enumerate(range(first, stop, 64)):
        if U64(tops[block]) >= low:
            end = min(stop, start + 64)
            mask = _mask_at_least(bits, start, end, low) & ~_mask_above(bits, start, end, high - U64(1))
            n += _store_keys(bits, start, mask, keys, n)
    if not 1 <= m <= n:
        return low, 0
    threshold = _select_kth(keys[:n], m, scratch)
    for i in range(n):
        m -= U64(keys[i]) > threshold
    return threshold, m


@inline_without_refcounts
def _store_indices(
    bits: Array,
    first: int,
    stop: int,
    tops: Array,
    least: np.uint64,
    ties: int,
    out: Array,
    n: int,
    m: int,
) -> int:
    """Store the positions above a key and the first ``ties`` equal to it, from out[n] on; at most m."""
    stops = n + m
    for block, start in enumerate(range(first, stop, 64)):
        if U64(tops[block]) < least:
            continue
        end = min(stop, start + 64)
        mask = _mask_above(bits, start, end, least)
        if ties > 0:
            equal = _mask_at_least(bits, start, end, least) & ~mask
            for _ in range(popcount(equal) - ties):
                equal ^= U64(1) << U64(63 - leading_zeros(equal))
            ties -= popcount(equal)
            mask |= equal
        if n + popcount(mask) > stops:  # another thread changed the array
            return n
        n += store_set_bits(out, n, mask, start)
    return n


@kernel
def fill_chunks(bits: Array, infinity: int, chunk: int, each: int, last: int, out: Array) -> tuple[int, bool]:
    """Store the positions of the top of each chunk, ascending.

    Args:
        bits: the elements, at least one.
        infinity: bits of infinity.
        chunk: elements per chunk, at most all.
        each: number kept per whole chunk, from 1 to ``chunk``.
        last: number kept of the shorter chunk at the end, if there is one.
        out: positions, written; ``SLACK`` more than are kept.

    Returns the number written, smaller if another thread changes the array, and whether all elements are
    finite.
    """
    blocks = chunk // 64 + 1
    tops, keys = np.empty(blocks, bits.dtype), np.empty(chunk + 64, bits.dtype)
    scratch = np.empty(max(chunk, blocks), bits.dtype)
    beyond = U64(1) << U64(bit_width(bits) - 1)
    guess, step = U64(0), U64(1) << U64(bit_width(bits) >> 1)
    written, greatest_of_all = 0, U64(0)
    for first in range(0, bits.size, chunk):
        stop = min(first + chunk, bits.size)
        m = each if stop - first == chunk else last
        if out.size - SLACK - written < m:
            break
        if m == 1:
            best, place = _find_max(bits, first, stop)
            greatest_of_all = max(greatest_of_all, best)
            out[written] = place
            written += 1
            continue
        greatest_of_all = max(greatest_of_all, _store_block_maxima(bits, first, stop, tops))
        n = (stop - first + 63) >> 6
        low, high, certain = U64(0), beyond, 0
        if m <= n:
            low = _select_kth(tops[:n], m, scratch)
        if low == U64(0):  # zeros bracket nothing
            low, high, certain = _bracket_kth(bits, first, stop, m, guess, step)
        threshold, ties = _find_threshold(bits, first, stop, tops, low, high, m - certain, keys, scratch)
        if ties == 0:
            break
        step = ((step + max(threshold, guess) - min(threshold, guess)) >> U64(1)) + U64(1)
        guess = threshold
        written = _store_indices(bits, first, stop, tops, threshold, ties, out, written, m)
    return written, greatest_of_all < U64(infinity)
