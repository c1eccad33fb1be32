"""Spans of the Rice index codec, checked and read (formats/spec/index/rice.md).

The checks are those of the page, in its order. Whatever another thread writes into the section meanwhile, no
array is left.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.ones import store_ones
from wirecodec.kernels.cpu.rice import MAX_PARAMETER, PARAMETER_BITS, head_words, low_words
from wirecodec.kernels.cpu.vector import funnel_right, lane, load, ramp, running_sum, splat, spread, store
from wirecodec.kernels.cpu.words import load64
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

__all__ = [
    "BAD_LENGTH",
    "BAD_PADDING",
    "BAD_PARAMETER",
    "BAD_RANGE",
    "BAD_UNARY",
    "directory",
    "first_loose",
    "read",
]

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_PADDING, BAD_PARAMETER, BAD_UNARY, BAD_RANGE = 1, 2, 3, 4, 5


@kernel
def directory(words: Array, r: int, parameters: Array, starts: Array) -> int:
    """What stands before the spans, checked; 0, or which check failed (BAD_*).

    Args:
        words: the section, u32, at least as long as the directory.
        r: indices, > 0.
        parameters: (⌈r/256⌉,) u8, written.
        starts: (⌈r/4096⌉ + 1,) i64, written: the first word of each span, and where the last ends.
    """
    inner, head = starts.size - 2, head_words(r)
    bit = 48 * inner
    largest = 0
    for block in range(parameters.size):
        field = U64(words[bit >> 5]) >> U64(bit & 31)
        if (bit & 31) + PARAMETER_BITS > 32:
            field |= U64(words[(bit >> 5) + 1]) << U64(32 - (bit & 31))
        parameters[block] = field & U64(31)
        largest = max(largest, np.int64(parameters[block]))
        bit += PARAMETER_BITS
    if bit & 31 and words[head - 1] >> U32(bit & 31):
        return BAD_PADDING
    if largest > MAX_PARAMETER:
        return BAD_PARAMETER
    at = head
    for span in range(inner):
        starts[span] = at
        at += np.int64((words[inner + (span >> 1)] >> U32(16 * (span & 1))) & U32(0xFFFF))
    starts[inner] = at
    starts[inner + 1] = words.size
    if at > words.size:
        return BAD_LENGTH
    for span in range(inner + 1):
        if starts[span + 1] - starts[span] < low_words(parameters, r, span) + 1:
            return BAD_LENGTH
    return 0


@kernel
def read(
    words: Array, starts: Array, parameters: Array, d: int, r: int, first: int, last: int, out: Array
) -> tuple[int, int]:
    """The indices of some spans; (0, last), or which check failed (BAD_*) and in which span.

    Args:
        words: the section, u32.
        starts: from ``directory``.
        parameters: from ``directory``.
        d: elements of the chunk.
        r: indices of all spans.
        first: the spans first … last - 1 are read.
        last: see there.
        out: u32, room for their indices.
    """
    ones = np.empty(RICE_SPAN + 64, np.uint32)
    for span in range(first, last):
        n = min(RICE_SPAN, r - span * RICE_SPAN)
        at = starts[span]
        stop = starts[span + 1]
        unary = at + low_words(parameters, r, span)
        tail_bits = (n % RICE_BLOCK) * np.int64(parameters[(span * RICE_SPAN + n - 1) // RICE_BLOCK])
        if tail_bits & 31 and words[unary - 1] >> U32(tail_bits & 31):
            return BAD_PADDING, span
        if words[stop - 1] == U32(0) or not _find_ones(words, unary, stop, n, ones):
            return BAD_UNARY, span
        if 32 * (stop - 1 - unary) > d + n:  # so many zero bits; below, positions fit a u32
            return BAD_RANGE, span
        index = U64(words[span - 1]) if span > 0 else U64(0)  # the least value that the next index can take
        zeros = np.int64(0)  # of the blocks before
        for j in range(0, n, RICE_BLOCK):
            b = np.int64(parameters[(span * RICE_SPAN + j) // RICE_BLOCK])
            o = (span - first) * RICE_SPAN + j
            if j + RICE_BLOCK > n:
                index = _unpack_tail(words, at, b, ones[j:n], U32(zeros + j), index, out[o : o + n - j])
            elif b == 0:
                index = _copy_ones(ones, j, U32(zeros), index, out, o)
            else:
                index = _unpack(words, at, b, ones, j, U32(zeros), index, out, o)
            if index > U64(d):  # indices only grow: the block's last one decides for all of them
                return BAD_RANGE, span
            zeros = np.int64(ones[min(j + RICE_BLOCK, n) - 1]) - (j + RICE_BLOCK - 1)
            at += RICE_LANES * b
    return 0, last


@inline
def _find_ones(words: Array, w: int, stop: int, n: int, ones: Array) -> bool:
    """The positions of the one bits of words w … stop - 1 into ``ones``; whether they are n."""
    found = 0
    first = w
    while w + 1 < stop and found <= n:
        found += store_ones(ones, found, load64(words, w << 2), (w - first) << 5)
        w += 2
    if w + 1 == stop and found <= n:
        found += store_ones(ones, found, U64(words[w]), (w - first) << 5)
    return found == n


@inline
def _copy_ones(ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array, o: int) -> np.uint64:
    """The indices of a full block without low bits; the least value after them."""
    shift = U32(index - U64(zeros) - U64(j))
    for i in range(0, RICE_BLOCK, 16):
        store(out, o + i, load(ones, j + i, 16) + shift)
    return index + U64(U32(ones[j + RICE_BLOCK - 1] - U32(j) - zeros)) + U64(1)


@inline
def _unpack(
    words: Array, at: int, b: int, ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array, o: int
) -> np.uint64:
    """The indices of a full block with low bits; the least value after them.

    Index i is the sum of (q + 1) 2^b up to it and of the low bits; the vectors' sums wrap, but only where the
    last index is out of range, and that one is returned without wrapping.
    """
    mask = (U32(1) << U32(b)) - U32(1)
    before = splat(U32(index - U64(1)), 8)
    bit = 0
    skipped = ramp(8, 32) + U32(zeros + U32(j))
    sums = splat(U32(0), 8)
    for i in range(0, RICE_BLOCK, RICE_LANES):
        place = at + RICE_LANES * (bit >> 5)
        beyond = at + RICE_LANES * min((bit >> 5) + 1, b - 1)
        low = funnel_right(load(words, beyond, 8), load(words, place, 8), bit & 31) & mask
        lows = running_sum(low + U32(1))
        quotients = load(ones, j + i, 8) - skipped
        store(out, o + i, (quotients << b) + lows + before + sums)
        sums += spread(lows, 7)
        skipped += U32(8)
        bit += b
    quotient = U32(ones[j + RICE_BLOCK - 1] - U32(j + RICE_BLOCK - 1) - zeros)
    # The sum of 256 low bits and ones is 2^32 at most, and never 0.
    return index + (U64(quotient) << U64(b)) + U64(U32(lane(sums, 0) - U32(1))) + U64(1)


@inline
def _unpack_tail(
    words: Array, at: int, b: int, ones: Array, zeros: np.uint32, index: np.uint64, out: Array
) -> np.uint64:
    """The indices of the last, shorter block; the least value after them."""
    mask = (U64(1) << U64(b)) - U64(1)
    bit = 0
    before = U32(zeros - U32(1))
    for i in range(out.size):
        low = U64(0)
        if b > 0:
            low = U64(words[at + (bit >> 5)]) >> U64(bit & 31)
            if (bit & 31) + b > 32:
                low |= U64(words[at + (bit >> 5) + 1]) << U64(32 - (bit & 31))
            bit += b
        index += (U64(U32(ones[i] - before - U32(1))) << U64(b)) + (low & mask)
        before = ones[i]
        out[i] = U32(index & U64(0xFFFFFFFF))
        index += U64(1)
    return index


@kernel
def first_loose(words: Array, indices: Array) -> int:
    """The first span whose base is not the index before it, plus 1; -1 where there is none."""
    for span in range(1, (indices.size - 1) // RICE_SPAN + 1):
        if U64(words[span - 1]) != U64(indices[span * RICE_SPAN - 1]) + U64(1):
            return span
    return -1
