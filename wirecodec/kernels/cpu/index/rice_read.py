"""Kernels that check and read a section of the Rice index codec (formats/spec/index/rice.md).

The checks are those of the page, in its order. Another thread may write into the section at any time. Even
then, indices that pass the checks ascend and are below d, and no access leaves an array.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.index.rice import (
    MAX_PARAMETER,
    MIN_UNITS_PER_THREAD,
    PARAMETER_BITS,
    SPAN_BLOCKS,
    UNIT_SPANS,
    directory_words,
    low_words,
)
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

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_PADDING, BAD_PARAMETER, BAD_UNARY, BAD_RANGE, BAD_BASE = 1, 2, 3, 4, 5, 6

SPAN_ONES = RICE_SPAN + 64
"""Elements of the scratch of ``read_span``."""


@kernel
def read_directory(words: Array, r: int, parameters: Array, starts: Array) -> int:
    """Read and check the directory, which precedes the spans.

    Args:
        words: u32, the section, at least as long as the directory.
        r: number of indices, > 0.
        parameters: (⌈r/256⌉,) u8, written.
        starts: (⌈r/4096⌉ + 1,) i64, written: the first word of each span, and the word after the last.

    Returns:
        0 or BAD_*.
    """
    inner, directory = starts.size - 2, directory_words(r)
    bit = 48 * inner
    largest = 0
    for block in range(parameters.size):
        field = U64(words[bit >> 5]) >> U64(bit & 31)
        if (bit & 31) + PARAMETER_BITS > 32:
            field |= U64(words[(bit >> 5) + 1]) << U64(32 - (bit & 31))
        parameters[block] = field & U64(31)
        largest = max(largest, np.int64(parameters[block]))
        bit += PARAMETER_BITS
    if bit & 31 and words[directory - 1] >> U32(bit & 31):
        return BAD_PADDING
    if largest > MAX_PARAMETER:
        return BAD_PARAMETER
    at = directory
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
    """Read and check the spans first … last - 1.

    Args:
        words: u32, the section.
        bases: u32, the base of each span but the first; a copy, because the bases are read twice.
        starts: from ``read_directory``.
        parameters: from ``read_directory``.
        d: elements of the chunk.
        first: number of the first span.
        last: number of the last span, plus 1.
        out: u32, written: the indices of these spans.

    Returns:
        (the first span that fails a check, BAD_*), or (last, 0).
    """
    faults = np.zeros(last - first, np.uint8)
    run_parallel(
        lambda turns: _read(words, bases, starts, parameters, d, first, faults, out, turns),
        -(-faults.size // UNIT_SPANS),
        MIN_UNITS_PER_THREAD,
    )
    return _find_fault(bases, faults, first, out)


@kernel
def _read(
    words: Array,
    bases: Array,
    starts: Array,
    parameters: Array,
    d: int,
    first: int,
    faults: Array,
    out: Array,
    turns: Array,
) -> None:
    """See ``read``; ``faults[i]`` becomes the BAD_* code of span ``first + i`` if that span fails."""
    ones = np.empty(SPAN_ONES, np.uint32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        for i in range(unit * UNIT_SPANS, min((unit + 1) * UNIT_SPANS, faults.size)):
            part = out[i * RICE_SPAN : (i + 1) * RICE_SPAN]
            faults[i] = read_span(words, bases, starts, parameters, d, first + i, ones, part)
        unit = next_unit(turns, unit)


@inline
def read_span(
    words: Array,
    bases: Array,
    starts: Array,
    parameters: Array,
    d: int,
    span: int,
    ones: Array,
    out: Array,
) -> int:
    """Read one span, and return 0 or BAD_*; ``ones`` is (SPAN_ONES,) u32 scratch."""
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
    if 32 * (stop - 1 - unary) > d + n:  # More zero bits than elements. Below, positions fit a u32.
        return BAD_RANGE
    index = U64(bases[span - 1]) if span > 0 else U64(0)  # Lower bound of the next index.
    zeros = np.int64(0)  # Zero bits of the previous blocks.
    for j in range(0, n, RICE_BLOCK):
        b = np.int64(parameters[block + j // RICE_BLOCK])
        if j + RICE_BLOCK > n:
            index = _unpack_tail(words, at, b, ones, j, U32(zeros), index, out)
        elif b == 0:
            index = _copy_ones(ones, j, U32(zeros), index, out)
        else:
            index = _unpack(words, at, b, ones, j, U32(zeros), index, out)
        if index > U64(d):  # Indices ascend, so that the block's last one decides.
            return BAD_RANGE
        zeros = np.int64(ones[min(j + RICE_BLOCK, n) - 1]) - (j + RICE_BLOCK - 1)
        at += RICE_LANES * b
    return 0


@inline
def _copy_ones(ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array) -> np.uint64:
    """Read a full block without low bits, and return the lower bound of the next index."""
    shift = U32(index - U64(zeros) - U64(j))
    for i in range(0, RICE_BLOCK, 16):
        store(out, j + i, load(ones, j + i, 16) + shift)
    return index + U64(U32(ones[j + RICE_BLOCK - 1] - U32(j) - zeros)) + U64(1)


@inline
def _unpack(
    words: Array, at: int, b: int, ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array
) -> np.uint64:
    """Read a full block with low bits, and return the lower bound of the next index.

    Index i is a running sum of quotients times 2^b, low bits and ones. The vectors' sums wrap only if the
    last index is out of range. The returned bound is computed in 64 bits and does not wrap.
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
    # The sum of 256 low bits and ones is from 1 to 2^32.
    return index + (U64(quotient) << U64(b)) + U64(U32(extract_lane(sums, 0) - U32(1))) + U64(1)


@inline
def _unpack_tail(
    words: Array, at: int, b: int, ones: Array, j: int, zeros: np.uint32, index: np.uint64, out: Array
) -> np.uint64:
    """Read the last, shorter block, and return the lower bound of the next index."""
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
def _find_fault(bases: Array, faults: Array, first: int, indices: Array) -> tuple[int, int]:
    """Return the first span that failed or whose base does not follow the span before it, and the code."""
    for i in range(faults.size):
        if faults[i] != 0:
            return first + i, np.int64(faults[i])
    for i in range(1, faults.size):
        if U64(bases[first + i - 1]) != U64(indices[i * RICE_SPAN - 1]) + U64(1):
            return first + i, BAD_BASE
    return first + faults.size, 0
