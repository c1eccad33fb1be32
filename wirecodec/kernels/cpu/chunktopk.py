"""The top of each chunk, in two reads, of which the second is short.

The greatest magnitudes of blocks of 64 come first. The m-th greatest of those is a bound that at least m
elements of the chunk reach, so only blocks that reach it are looked at again, and only what reaches it there
is ranked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.masks import at_least64, top64
from wirecodec.kernels.cpu.words import low_ones, trailing_zeros

__all__ = ["fill_chunks"]

U64 = np.uint64


@inline
def _top(bits: Array, sign: Any, start: int, stop: int) -> Any:
    """The greatest key of at most 64 elements."""
    if start + 64 <= bits.size:
        return top64(bits, start, low_ones(stop - start))
    greatest = bits[start] & ~sign
    for i in range(start + 1, stop):
        greatest = max(greatest, bits[i] & ~sign)
    return bits.dtype.type(greatest)


@inline
def _mask(bits: Array, sign: Any, start: int, stop: int, least: Any) -> np.uint64:
    """Which of at most 64 elements have keys of ``least`` or more."""
    if start + 64 <= bits.size:
        return at_least64(bits, start, least) & low_ones(stop - start)
    mask = U64(0)
    for i in range(start, stop):
        if (bits[i] & ~sign) >= least:
            mask |= U64(1) << U64(i - start)
    return mask


@inline
def _kth(keys: Array, m: int, scratch: Array) -> Any:
    """The m-th greatest of ``keys``, digit by digit; ``scratch`` has room for all of them."""
    left = keys.size
    for i in range(left):
        scratch[i] = keys[i]
    if m == 1 or left <= 24:
        for rank in range(m):
            best = rank
            for i in range(rank + 1, left):
                if scratch[i] > scratch[best]:
                    best = i
            scratch[rank], scratch[best] = scratch[best], scratch[rank]
        return scratch[m - 1]
    counts = np.empty(256, np.int64)
    shift = 8 * keys.itemsize - 8
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
            return scratch[0]
        shift -= 8


@kernel
def fill_chunks(bits: Array, sign: Any, chunk: int, each: int, last: int, out: Array) -> tuple[int, Any]:
    """The positions of the top of each chunk, ascending, into ``out``, which has exactly that room.

    Args:
        bits: the elements, at least one.
        sign: the sign bit of their type.
        chunk: elements of a chunk, at most all.
        each: how many are kept of a whole chunk, from 1 to ``chunk``.
        last: how many of the shorter one at the end, where there is one.
        out: positions, written.

    Returns how many were written, fewer where another thread changes the array, and the greatest key.
    """
    blocks = chunk // 64 + 1
    tops, keys = np.empty(blocks, bits.dtype), np.empty(chunk, bits.dtype)
    places, scratch = np.empty(chunk, np.int64), np.empty(max(chunk, blocks), bits.dtype)
    written = 0
    greatest = bits.dtype.type(0)
    for first in range(0, bits.size, chunk):
        stop = min(first + chunk, bits.size)
        m = each if stop - first == chunk else last
        n = 0
        for start in range(first, stop, 64):
            tops[n] = _top(bits, sign, start, min(stop, start + 64))
            greatest = max(greatest, tops[n])
            n += 1
        least = _kth(tops[:n], m, scratch) if m <= n else bits.dtype.type(0)
        n = 0
        for block, start in enumerate(range(first, stop, 64)):
            if tops[block] < least:
                continue
            mask = _mask(bits, sign, start, min(stop, start + 64), least)
            while mask != U64(0):
                place = start + trailing_zeros(mask)
                keys[n] = bits[place] & ~sign
                places[n] = place
                n += 1
                mask &= mask - U64(1)
        if n < m or out.size - written < m:
            return written, greatest
        threshold = _kth(keys[:n], m, scratch)
        ties = m
        for i in range(n):
            ties -= keys[i] > threshold
        for i in range(n):
            if keys[i] > threshold or (keys[i] == threshold and ties > 0):
                ties -= keys[i] == threshold
                if written == out.size:  # another thread writes to the array
                    return written, greatest
                out[written] = places[i]
                written += 1
    return written, greatest
