"""The loops of the Elias-Fano index codec (formats/spec/index/elias-fano.md): layout, write, read.

Where each span of 4096 indices lies follows from the bases, so all loops take ranges of spans.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.set_bits import find_set_bits
from wirecodec.kernels.cpu.simd.vector import funnel_shift_right, load, ramp, splat, store
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

__all__ = [
    "BAD_BASE",
    "BAD_HIGH",
    "BAD_LENGTH",
    "BAD_ORDER",
    "BAD_PADDING",
    "BAD_RANGE",
    "layout",
    "read",
    "write",
]

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_BASE, BAD_PADDING, BAD_HIGH, BAD_ORDER, BAD_RANGE = 1, 2, 3, 4, 5, 6


@inline
def _low_words(n: int, b: int) -> int:
    """The u32 words of the low bits of a span of n indices."""
    return (n * b + 31) >> 5  # those of full blocks fill whole words


@kernel
def layout(bases: Array, r: int, parameters: Array, starts: Array) -> int:
    """Each span's parameter, and where it lies; 0, or BAD_BASE.

    Args:
        bases: (n_spans + 1,) i64: of the spans, and d.
        r: indices of all spans.
        parameters: (n_spans,) u8, written.
        starts: (n_spans + 1,) i64, written: each span's first word, counted from span 0, and the most that
            the last can take.
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
    """Some spans into their places; how many words the last of them takes.

    Args:
        indices: (r,) u32, ascending.
        bases: (n_spans + 1,) i64, as of ``layout``.
        parameters: of all spans, from ``layout``.
        starts: from ``layout``.
        first: the spans first … last - 1 are written.
        last: see there.
        words: u32, zeroed, room for all spans.
    """
    taken = 0
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
        most = U32(32 * high.size - 1)  # where another thread writes to the indices
        filling, current = U32(0), U32(0)
        base = U32(bases[span])
        for i in range(n):
            bit = min(U32(U32(U32(indices[start + i] - base - U32(i)) >> U32(b)) + U32(i)), most)
            word = bit >> U32(5)
            filling = U32((filling if word == current else U32(0)) | U32(U32(1) << (bit & U32(31))))
            high[word] = filling
            current = word
        taken = _low_words(n, b) + np.int64(current) + 1
    return taken


@inline
def _pack(indices: Array, start: int, base: np.uint32, b: int, words: Array, at: int) -> None:
    """The low bits of a full block, 32 rows of 8 lanes."""
    mask = (U32(1) << U32(b)) - U32(1)
    filling = splat(U32(0), 8)
    offsets = ramp(8, 32) + base
    used = 0
    for i in range(start, start + RICE_BLOCK, RICE_LANES):
        low = (load(indices, i, 8) - offsets) & mask
        filling |= low << used
        used += b
        if used >= 32:
            store(words, at, filling)
            at += RICE_LANES
            used -= 32
            filling = low >> (b - used) if used > 0 else splat(U32(0), 8)
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
    """The low bits of the last, shorter block: one stream."""
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
    """The indices of some spans; (0, last), or which check failed (BAD_*) and in which span.

    Args:
        words: u32, those of all spans.
        bases: (n_spans + 1,) i64, as of ``layout``, which accepted them.
        parameters: from ``layout``.
        starts: from ``layout``, the last one set to ``words.size``.
        d: elements of the chunk.
        r: indices of all spans.
        first: the spans first … last - 1 are read.
        last: see there.
        out: u32, room for their indices.
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
    """The indices of a full block: (one - i) · 2^b + low bits + i + base."""
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
    """The indices of the last, shorter block."""
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
