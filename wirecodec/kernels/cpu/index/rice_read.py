"""Spans of the Rice index codec, checked and read (formats/spec/index/rice.md).

The checks are those of the page, in its order. Another thread may write into the section at any time: indices
that pass the checks ascend and are below d, and no access leaves an array.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.index.rice import (
    LEAST_UNITS,
    MAX_PARAMETER,
    PARAMETER_BITS,
    SPAN_BLOCKS,
    UNIT_SPANS,
    head_words,
    low_words,
)
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.set_bits import find_set_bits
from wirecodec.kernels.cpu.simd.vector import (
    broadcast_lane,
    extract_lane,
    funnel_shift_right,
    load,
    prefix_sum,
    ramp,
    splat,
    store,
)
from wirecodec.kernels.cpu.threads import next_unit, run_parallel
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

__all__ = [
    "BAD_BASE",
    "BAD_LENGTH",
    "BAD_PADDING",
    "BAD_PARAMETER",
    "BAD_RANGE",
    "BAD_UNARY",
    "directory",
    "read",
]

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_PADDING, BAD_PARAMETER, BAD_UNARY, BAD_RANGE, BAD_BASE = 1, 2, 3, 4, 5, 6


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


def read(
    words: Array, bases: Array, starts: Array, parameters: Array, d: int, first: int, last: int, out: Array
) -> tuple[int, int]:
    """The indices of spans first … last - 1; the first that fails a check, and which (BAD_*), or last and 0.

    Args:
        words: the section, u32.
        bases: u32, of each span but the first; a copy, because they are read twice.
        starts: from ``directory``.
        parameters: from ``directory``.
        d: elements of the chunk.
        first: see there.
        last: see there.
        out: u32, room for the indices of these spans.
    """
    verdicts = np.zeros(last - first, np.uint8)
    run_parallel(
        lambda turns: _read(words, bases, starts, parameters, d, first, verdicts, out, turns),
        -(-verdicts.size // UNIT_SPANS),
        LEAST_UNITS,
    )
    return _verdict(bases, verdicts, first, out)


@kernel
def _read(
    words: Array,
    bases: Array,
    starts: Array,
    parameters: Array,
    d: int,
    first: int,
    verdicts: Array,
    out: Array,
    turns: Array,
) -> None:
    """See ``read``; ``verdicts`` gets the code of each span that fails."""
    ones = np.empty(RICE_SPAN + 64, np.uint32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        for i in range(unit * UNIT_SPANS, min((unit + 1) * UNIT_SPANS, verdicts.size)):
            part = out[i * RICE_SPAN : (i + 1) * RICE_SPAN]
            verdicts[i] = _read_span(words, bases, starts, parameters, d, first + i, ones, part)
        unit = next_unit(turns, unit)


@inline
def _read_span(
    words: Array,
    bases: Array,
    starts: Array,
    parameters: Array,
    d: int,
    span: int,
    ones: Array,
    out: Array,
) -> int:
    """The indices of one span; 0, or which check failed. ``ones`` is scratch."""
    n = out.size
    block = span * SPAN_BLOCKS
    at = starts[span]
    stop = starts[span + 1]
    unary = at + low_words(parameters, span * RICE_SPAN + n, span)
    tail_bits = (n % RICE_BLOCK) * np.int64(parameters[block + (n - 1) // RICE_BLOCK])
    if tail_bits & 31 and words[unary - 1] >> U32(tail_bits & 31):
        return BAD_PADDING
    if words[stop - 1] == U32(0) or not find_set_bits(words, unary, stop, n, ones):
        return BAD_UNARY
    if 32 * (stop - 1 - unary) > d + n:  # so many zero bits; below, positions fit a u32
        return BAD_RANGE
    index = U64(bases[span - 1]) if span > 0 else U64(0)  # the least value that the next index can take
    zeros = np.int64(0)  # of the blocks before
    for j in range(0, n, RICE_BLOCK):
        b = np.int64(parameters[block + j // RICE_BLOCK])
        if j + RICE_BLOCK > n:
            index = _unpack_tail(words, at, b, ones, j, U32(zeros), index, out)
        elif b == 0:
            index = _copy_ones(ones, j, U32(zeros), index, out)
        else:
            index = _unpack(words, at, b, ones, j, U32(zeros), index, out)
        if index > U64(d):  # indices only grow: the block's last one decides for all of them
            return BAD_RANGE
        zeros = np.int64(ones[min(j + RICE_BLOCK, n) - 1]) - (j + RICE_BLOCK - 1)
        at += RICE_LANES * b
    return 0


@inline
def _copy_ones(ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array) -> np.uint64:
    """The indices of a full block without low bits; the least value after them."""
    shift = U32(index - U64(zeros) - U64(j))
    for i in range(0, RICE_BLOCK, 16):
        store(out, j + i, load(ones, j + i, 16) + shift)
    return index + U64(U32(ones[j + RICE_BLOCK - 1] - U32(j) - zeros)) + U64(1)


@inline
def _unpack(
    words: Array, at: int, b: int, ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array
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
        low = funnel_shift_right(load(words, beyond, 8), load(words, place, 8), bit & 31) & mask
        lows = prefix_sum(low + U32(1))
        quotients = load(ones, j + i, 8) - skipped
        store(out, j + i, (quotients << b) + lows + before + sums)
        sums += broadcast_lane(lows, 7)
        skipped += U32(8)
        bit += b
    quotient = U32(ones[j + RICE_BLOCK - 1] - U32(j + RICE_BLOCK - 1) - zeros)
    # The sum of 256 low bits and ones is 2^32 at most, and never 0.
    return index + (U64(quotient) << U64(b)) + U64(U32(extract_lane(sums, 0) - U32(1))) + U64(1)


@inline
def _unpack_tail(
    words: Array, at: int, b: int, ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array
) -> np.uint64:
    """The indices of the last, shorter block; the least value after them."""
    mask = (U64(1) << U64(b)) - U64(1)
    bit = 0
    before = U32(U32(j) + zeros - U32(1))
    for i in range(j, out.size):
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
def _verdict(bases: Array, verdicts: Array, first: int, indices: Array) -> tuple[int, int]:
    """The first span that failed, or does not begin where the one before ends, and the code."""
    for i in range(verdicts.size):
        if verdicts[i] != 0:
            return first + i, np.int64(verdicts[i])
    for i in range(1, verdicts.size):
        if U64(bases[first + i - 1]) != U64(indices[i * RICE_SPAN - 1]) + U64(1):
            return first + i, BAD_BASE
    return first + verdicts.size, 0
