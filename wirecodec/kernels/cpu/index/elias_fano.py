"""Kernels of the Elias-Fano index codec (formats/spec/index/elias-fano.md): layout, write, read.

The bases determine the position of each span of 4096 indices, so that all kernels accept ranges of spans.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.set_bits import find_set_bits
from wirecodec.kernels.cpu.simd.vector import funnel_shift_right, load, ramp, splat, store
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_BASE, BAD_PADDING, BAD_HIGH, BAD_ORDER, BAD_RANGE = 1, 2, 3, 4, 5, 6


@inline
def _low_words(n: int, b: int) -> int:
    """Return the u32 words that the low bits of a span of n indices take."""
    return (n * b + 31) >> 5  # Full blocks fill whole words.


@kernel
def compute_layout(bases: Array, r: int, parameters: Array, starts: Array) -> int:
    """Compute each span's parameter and position from the bases.

    Args:
        bases: (n_spans + 1,) i64, the bases of the spans, and d.
        r: number of indices in all spans.
        parameters: (n_spans,) u8, written.
        starts: (n_spans + 1,) i64, written: each span's first word, counted from span 0, and an upper bound
            of the last span's end.

    Returns:
        0, or BAD_BASE if a span has fewer elements than indices.
    """
    starts[0] = 0
    for span in range(parameters.size):
        n = min(RICE_SPAN, r - span * RICE_SPAN)
        absent = bases[span + 1] - bases[span] - n
        if absent < 0:
            return BAD_BASE
        parameter = 0
        while (n << (parameter + 1)) <= absent:
            parameter += 1
        parameters[span] = parameter
        high = (n + (absent >> parameter) + 31) >> 5
        starts[span + 1] = starts[span] + _low_words(n, parameter) + high
    return 0


@kernel
def write(
    indices: Array, bases: Array, parameters: Array, starts: Array, first: int, last: int, words: Array
) -> int:
    """Write the spans first … last - 1, and return the number of words of the last one.

    Args:
        indices: (r,) u32, ascending.
        bases: (n_spans + 1,) i64, as in ``compute_layout``.
        parameters: (n_spans,) u8, from ``compute_layout``.
        starts: (n_spans + 1,) i64, from ``compute_layout``.
        first: number of the first span.
        last: number of the last span, plus 1.
        words: u32, zeroed, a buffer for all spans.
    """
    words_of_last = 0
    for span in range(first, last):
        start = span * RICE_SPAN
        n = min(RICE_SPAN, indices.size - start)
        b = np.int64(parameters[span])
        at = starts[span]
        for block in range(start, start + (n & -RICE_BLOCK), RICE_BLOCK):
            if b > 0:
                _pack(indices, block, U32(bases[span] + block - start), b, words, at)
            at += RICE_LANES * b
        _pack_tail(
            indices, start + (n & -RICE_BLOCK), start + n, bases[span] + (n & -RICE_BLOCK), b, words, at
        )
        high = words[starts[span] + _low_words(n, b) : starts[span + 1]]
        max_bit = U32(32 * high.size - 1)  # A bound, in case another thread changes the indices.
        accumulator, current = U32(0), U32(0)
        base = U32(bases[span])
        for i in range(n):
            bit = min(U32(U32(U32(indices[start + i] - base - U32(i)) >> U32(b)) + U32(i)), max_bit)
            word = bit >> U32(5)
            accumulator = U32((accumulator if word == current else U32(0)) | U32(U32(1) << (bit & U32(31))))
            high[word] = accumulator
            current = word
        words_of_last = _low_words(n, b) + np.int64(current) + 1
    return words_of_last


@inline
def _pack(indices: Array, start: int, base: np.uint32, b: int, words: Array, at: int) -> None:
    """Pack the low bits of a full block: 32 rows of 8 lanes."""
    mask = (U32(1) << U32(b)) - U32(1)
    accumulator = splat(U32(0), 8)
    offsets = ramp(8, 32) + base
    used = 0
    for i in range(start, start + RICE_BLOCK, RICE_LANES):
        low = (load(indices, i, 8) - offsets) & mask
        accumulator |= low << used
        used += b
        if used >= 32:
            store(words, at, accumulator)
            at += RICE_LANES
            used -= 32
            accumulator = low >> (b - used) if used > 0 else splat(U32(0), 8)
        offsets += U32(RICE_LANES)


@inline
def _pack_tail(
    indices: Array,
    start: int,
    stop: int,
    base: int,
    b: int,
    words: Array,
    at: int,
) -> None:
    """Pack the low bits of the last, shorter block as one bit stream."""
    mask = (U64(1) << U64(b)) - U64(1)
    bit = 0
    for i in range(start, stop):
        low = (U64(indices[i]) - U64(base) - U64(i - start)) & mask
        shifted = low << U64(bit & 31)
        if b > 0:
            words[at + (bit >> 5)] |= U32(shifted & U64(0xFFFFFFFF))
            if (bit & 31) + b > 32:
                words[at + (bit >> 5) + 1] |= U32(shifted >> U64(32))
        bit += b


@kernel
def read(
    words: Array,
    bases: Array,
    parameters: Array,
    starts: Array,
    d: int,
    r: int,
    first: int,
    last: int,
    out: Array,
) -> tuple[int, int]:
    """Read the spans first … last - 1.

    Args:
        words: u32, the words of all spans.
        bases: (n_spans + 1,) i64, accepted by ``compute_layout``.
        parameters: (n_spans,) u8, from ``compute_layout``.
        starts: (n_spans + 1,) i64, from ``compute_layout``, the last one set to ``words.size``.
        d: elements of the chunk.
        r: number of indices in all spans.
        first: number of the first span.
        last: number of the last span, plus 1.
        out: u32, written: the indices of these spans.

    Returns:
        (0, last), or (BAD_*, the number of the span that fails the check).
    """
    ones = np.empty(RICE_SPAN + 64, np.uint32)
    for span in range(first, last):
        n = min(RICE_SPAN, r - span * RICE_SPAN)
        b = np.int64(parameters[span])
        at = starts[span]
        stop = starts[span + 1]
        high = at + _low_words(n, b)
        tail = n % RICE_BLOCK
        if (tail * b) & 31 and words[high - 1] >> U32((tail * b) & 31):
            return BAD_PADDING, span
        if not find_set_bits(words, high, stop, n, ones):
            return BAD_HIGH, span
        if span == parameters.size - 1 and words[stop - 1] == U32(0):
            return BAD_HIGH, span
        to = out[(span - first) * RICE_SPAN : (span - first) * RICE_SPAN + n]
        whole = n - tail
        for block in range(0, whole, RICE_BLOCK):
            _unpack(words, at, b, ones, block, U32(bases[span]), to)
            at += RICE_LANES * b
        _unpack_tail(words, at, b, ones, whole, U32(bases[span]), to)
        disorder = False
        now, before = to[1:], to[: n - 1]
        for i in range(now.size):
            disorder |= now[i] <= before[i]
        if disorder:
            return BAD_ORDER, span
        if np.int64(to[n - 1]) >= d:
            return BAD_RANGE, span
        if span < parameters.size - 1 and np.int64(to[n - 1]) + 1 != bases[span + 1]:
            return BAD_BASE, span
    return 0, last


@inline
def _unpack(words: Array, at: int, b: int, ones: Array, start: int, base: np.uint32, out: Array) -> None:
    """Unpack the indices of a full block: (ones[i] - i) · 2^b + low bits + i + base."""
    mask = (U32(1) << U32(b)) - U32(1)
    numbers = ramp(8, 32) + U32(start)
    bit = 0
    for i in range(start, start + RICE_BLOCK, RICE_LANES):
        v = (load(ones, i, 8) - numbers) << b
        if b > 0:
            place = at + RICE_LANES * (bit >> 5)
            beyond = at + RICE_LANES * min((bit >> 5) + 1, b - 1)
            v |= funnel_shift_right(load(words, beyond, 8), load(words, place, 8), bit & 31) & mask
        store(out, i, v + numbers + base)
        numbers += U32(RICE_LANES)
        bit += b


@inline
def _unpack_tail(words: Array, at: int, b: int, ones: Array, start: int, base: np.uint32, out: Array) -> None:
    """Unpack the indices of the last, shorter block."""
    mask = (U64(1) << U64(b)) - U64(1)
    bit = 0
    for i in range(start, out.size):
        low = U64(0)
        if b > 0:
            low = U64(words[at + (bit >> 5)]) >> U64(bit & 31)
            if (bit & 31) + b > 32:
                low |= U64(words[at + (bit >> 5) + 1]) << U64(32 - (bit & 31))
            bit += b
        v = (U64(U32(ones[i] - U32(i))) << U64(b)) + (low & mask)
        out[i] = U32((v + U64(i) + U64(base)) & U64(0xFFFFFFFF))
