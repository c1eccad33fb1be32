"""Kernels that write a section of the Rice index codec (formats/spec/index/rice.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.index.rice import (
    MIN_UNITS_PER_THREAD,
    PARAMETER_BITS,
    SPAN_BLOCKS,
    UNIT_SPANS,
    directory_words,
    gap,
    gaps8,
    gaps16,
)
from wirecodec.kernels.cpu.simd.vector import even_lanes, odd_lanes, reinterpret, splat, store
from wirecodec.kernels.cpu.simd.words import store64
from wirecodec.kernels.cpu.threads import next_unit, run_parallel
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

U32 = np.uint32
U64 = np.uint64

# A unary part takes at most 3 bits per index. If another thread changes the indices it may take more: 56 bits
# per 8 indices, and as many as _put_one admits.
SPAN_CODES, SPAN_EIGHTS = RICE_SPAN // 2 + 16, 16
"""Elements of the scratch of ``write_span``."""


def write(indices: Array, parameters: Array, span_words: Array, words: Array) -> None:
    """Write the directory and all spans.

    Args:
        indices: (r,) u32, ascending.
        parameters: (⌈r/256⌉,) u8, from ``plan``.
        span_words: (⌈r/4096⌉,) i64, from ``plan``.
        words: u32, the section, written.
    """
    units = -(-span_words.size // UNIT_SPANS)
    run_parallel(
        lambda turns: _write(indices, parameters, span_words, words, turns), units, MIN_UNITS_PER_THREAD
    )


@kernel
def _write(indices: Array, parameters: Array, span_words: Array, words: Array, turns: Array) -> None:
    """See ``write``."""
    codes, eights = np.empty(SPAN_CODES, np.uint32), np.empty(SPAN_EIGHTS, np.uint64)
    follows = 0  # The span that begins at word ``at``.
    at = directory_words(indices.size)
    unit = next_unit(turns, -1)
    while unit >= 0:
        if unit == 0:
            write_directory(indices, parameters, span_words, words[:at])
        for span in range(follows, min((unit + 1) * UNIT_SPANS, span_words.size)):
            if span >= unit * UNIT_SPANS:
                write_span(indices, parameters, span, words[at : at + span_words[span]], codes, eights)
            at += span_words[span]
            follows = span + 1
        unit = next_unit(turns, unit)


@inline
def write_span(
    indices: Array, parameters: Array, span: int, words: Array, codes: Array, eights: Array
) -> None:
    """Write one span into ``words``.

    Args:
        indices, parameters: of the section.
        span: its number.
        words: u32, exactly as long as the span.
        codes: (SPAN_CODES,) u32 scratch.
        eights: (SPAN_EIGHTS,) u64 scratch.
    """
    at = 0
    position, pending = np.int64(0), U64(0)
    stop = min((span + 1) * RICE_SPAN, indices.size)
    for block in range(span * SPAN_BLOCKS, (stop + RICE_BLOCK - 1) // RICE_BLOCK):
        start = block * RICE_BLOCK
        b = np.int64(parameters[block])
        if start + RICE_BLOCK <= stop:
            at = _pack(indices, start, b, words, at)
            position, pending = _write_unary(indices, start, b, eights, codes, position, pending)
        else:
            at = _pack_tail(indices, start, b, words, at)
            for i in range(start, stop):
                position, pending = _put_one(codes, position, pending, gap(indices, i) >> U64(b))
    store64(codes, position >> 3, pending)  # Zero bits up to the end of the word.
    for i in range(min(words.size - at, codes.size)):
        words[at + i] = codes[i]


@inline
def write_directory(indices: Array, parameters: Array, span_words: Array, words: Array) -> None:
    """Write bases, lengths and parameters into ``words``, which precede the spans."""
    inner = span_words.size - 1
    for span in range(inner):
        words[span] = indices[(span + 1) * RICE_SPAN - 1] + U32(1)
    words[inner:] = U32(0)
    for span in range(inner):
        words[inner + (span >> 1)] |= U32(U64(span_words[span]) << U64(16 * (span & 1)))
    bit = 48 * inner
    for block in range(parameters.size):
        shifted = U64(parameters[block]) << U64(bit & 31)
        words[bit >> 5] |= U32(shifted & U64(0xFFFFFFFF))
        if (bit & 31) + PARAMETER_BITS > 32:
            words[(bit >> 5) + 1] |= U32(shifted >> U64(32))
        bit += PARAMETER_BITS


@inline
def _pack(indices: Array, start: int, b: int, words: Array, at: int) -> int:
    """Pack the low bits of a full block as 32 rows of 8 lanes, and return the word after them."""
    if b == 0:
        return at
    mask = (U32(1) << U32(b)) - U32(1)
    accumulator = splat(U32(0), 8)
    used = 0
    for i in range(start, start + RICE_BLOCK, RICE_LANES):
        low = gaps8(indices, i) & mask
        accumulator |= low << used
        used += b
        if used >= 32:
            store(words, at, accumulator)
            at += RICE_LANES
            used -= 32
            accumulator = low >> (b - used) if used > 0 else splat(U32(0), 8)
    return at


@inline
def _pack_tail(indices: Array, start: int, b: int, words: Array, at: int) -> int:
    """Pack the low bits of the last, shorter block as one bit stream, and return the word after them."""
    mask = (U64(1) << U64(b)) - U64(1)
    accumulator = U64(0)
    used = 0
    for i in range(start, indices.size):
        accumulator |= (gap(indices, i) & mask) << U64(used)
        used += b
        if used >= 32:
            words[at] = U32(accumulator & U64(0xFFFFFFFF))
            at += 1
            accumulator >>= U64(32)
            used -= 32
    if used > 0:
        words[at] = U32(accumulator)
        at += 1
    return at


@inline
def _put(
    codes: Array, position: int, pending: np.uint64, code: np.uint64, length: int
) -> tuple[int, np.uint64]:
    """Append a code of at most 56 bits; return the next free bit and the bits already in its byte."""
    pending |= code << U64(position & 7)
    store64(codes, position >> 3, pending)
    whole = ((position & 7) + length) & -8
    return position + length, pending >> U64(whole)


@inline
def _put_one(codes: Array, position: int, pending: np.uint64, q: np.uint64) -> tuple[int, np.uint64]:
    """Append q zero bits and a one bit."""
    if U64(position) + q > U64(8 * RICE_SPAN):  # Only if another thread changes the indices.
        q = U64(0)
    while q >= U64(48):
        position, pending = _put(codes, position, pending, U64(0), 48)
        q -= U64(48)
    return _put(codes, position, pending, U64(1) << q, np.int64(q) + 1)


@inline
def _pairs(indices: Array, i: int, b: int) -> tuple[Any, Any]:
    """Return the unary codes of gaps i … i + 15, two per u64, and the number of zero bits of each pair."""
    quotients = reinterpret(gaps16(indices, i) >> b, 64)
    zeros = quotients & U64(0xFFFFFFFF)
    both = zeros + (quotients >> 32)
    one = splat(U64(1), 8)
    return one << zeros | splat(U64(2), 8) << both, both


@inline
def _write_unary(
    indices: Array, start: int, b: int, eights: Array, codes: Array, position: int, pending: np.uint64
) -> tuple[int, np.uint64]:
    """Append the codes of a full block, eight at a time if they fit a word; ``eights`` is scratch."""
    for i in range(start, start + RICE_BLOCK, 64):
        code0, zeros0 = _pairs(indices, i, b)
        code1, zeros1 = _pairs(indices, i + 16, b)
        code2, zeros2 = _pairs(indices, i + 32, b)
        code3, zeros3 = _pairs(indices, i + 48, b)
        code0, zeros0 = _merge(code0, zeros0, code1, zeros1, 2)
        code2, zeros2 = _merge(code2, zeros2, code3, zeros3, 2)
        code0, zeros0 = _merge(code0, zeros0, code2, zeros2, 4)
        store(eights, 0, code0)
        store(eights, 8, zeros0 + 8)
        for k in range(8):
            if eights[8 + k] <= U64(56):
                position, pending = _put(codes, position, pending, eights[k], np.int64(eights[8 + k]))
            else:
                for j in range(i + 8 * k, i + 8 * k + 8):
                    position, pending = _put_one(codes, position, pending, gap(indices, j) >> U64(b))
    return position, pending


@inline
def _merge(code0: Any, zeros0: Any, code1: Any, zeros1: Any, each: int) -> tuple[Any, Any]:
    """Merge each pair of neighbours of two vectors.

    The codes are wrong if they do not fit a word. The numbers of zero bits are always right.
    """
    zeros = even_lanes(zeros0, zeros1)
    code = even_lanes(code0, code1) | odd_lanes(code0, code1) << (zeros + each)
    return code, zeros + odd_lanes(zeros0, zeros1)
