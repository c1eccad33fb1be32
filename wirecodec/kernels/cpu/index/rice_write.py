"""Spans of the Rice index codec, written (formats/spec/index/rice.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.index.rice import (
    LEAST_UNITS,
    PARAMETER_BITS,
    SPAN_BLOCKS,
    UNIT_SPANS,
    gap,
    gaps8,
    gaps16,
    head_words,
)
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector import even_lanes, odd_lanes, reinterpret, splat, store
from wirecodec.kernels.cpu.simd.words import store64
from wirecodec.kernels.cpu.threads import next_unit, run_parallel
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

__all__ = ["write"]

U32 = np.uint32
U64 = np.uint64


def write(indices: Array, parameters: Array, span_words: Array, words: Array) -> None:
    """The directory and all spans.

    Args:
        indices: (r,) u32, ascending.
        parameters: of the blocks, from ``plan``.
        span_words: of the spans, from ``plan``.
        words: the section, u32, written.
    """
    units = -(-span_words.size // UNIT_SPANS)
    run_parallel(lambda turns: _write(indices, parameters, span_words, words, turns), units, LEAST_UNITS)


@kernel
def _write(indices: Array, parameters: Array, span_words: Array, words: Array, turns: Array) -> None:
    """See ``write``."""
    # A unary part takes 3 bits an index at most; where another thread writes to the indices it may take more,
    # 56 bits for each 8 and what _put_one admits.
    codes = np.empty(RICE_SPAN // 2 + 16, np.uint32)
    eights = np.empty(16, np.uint64)
    follows = 0  # the span that begins at word ``at``
    at = head_words(indices.size)
    unit = next_unit(turns, -1)
    while unit >= 0:
        if unit == 0:
            _write_directory(indices, parameters, span_words, words[:at])
        for span in range(follows, min((unit + 1) * UNIT_SPANS, span_words.size)):
            if span >= unit * UNIT_SPANS:
                _write_span(indices, parameters, span, words[at : at + span_words[span]], codes, eights)
            at += span_words[span]
            follows = span + 1
        unit = next_unit(turns, unit)


@inline
def _write_span(
    indices: Array, parameters: Array, span: int, words: Array, codes: Array, eights: Array
) -> None:
    """One span into its words; the last two arrays are scratch."""
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
    store64(codes, position >> 3, pending)  # zero bits up to the end of the word
    for i in range(min(words.size - at, codes.size)):
        words[at + i] = codes[i]


@inline
def _write_directory(indices: Array, parameters: Array, span_words: Array, words: Array) -> None:
    """Bases, lengths and parameters into ``words``, all that lies before the spans."""
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
    """The low bits of a full block, 32 rows of 8 lanes; the word behind them."""
    if b == 0:
        return at
    mask = (U32(1) << U32(b)) - U32(1)
    filling = splat(U32(0), 8)
    used = 0
    for i in range(start, start + RICE_BLOCK, RICE_LANES):
        low = gaps8(indices, i) & mask
        filling |= low << used
        used += b
        if used >= 32:
            store(words, at, filling)
            at += RICE_LANES
            used -= 32
            filling = low >> (b - used) if used > 0 else splat(U32(0), 8)
    return at


@inline
def _pack_tail(indices: Array, start: int, b: int, words: Array, at: int) -> int:
    """The low bits of the last, shorter block, one stream; the word behind them."""
    mask = (U64(1) << U64(b)) - U64(1)
    filling = U64(0)
    used = 0
    for i in range(start, indices.size):
        filling |= (gap(indices, i) & mask) << U64(used)
        used += b
        if used >= 32:
            words[at] = U32(filling & U64(0xFFFFFFFF))
            at += 1
            filling >>= U64(32)
            used -= 32
    if used > 0:
        words[at] = U32(filling)
        at += 1
    return at


@inline
def _put(
    codes: Array, position: int, pending: np.uint64, code: np.uint64, length: int
) -> tuple[int, np.uint64]:
    """Append a code of at most 56 bits; the next free bit, and what its byte holds already."""
    pending |= code << U64(position & 7)
    store64(codes, position >> 3, pending)
    whole = ((position & 7) + length) & -8
    return position + length, pending >> U64(whole)


@inline
def _put_one(codes: Array, position: int, pending: np.uint64, q: np.uint64) -> tuple[int, np.uint64]:
    """Append q zero bits and a one bit."""
    if U64(position) + q > U64(8 * RICE_SPAN):  # another thread writes to the indices
        q = U64(0)
    while q >= U64(48):
        position, pending = _put(codes, position, pending, U64(0), 48)
        q -= U64(48)
    return _put(codes, position, pending, U64(1) << q, np.int64(q) + 1)


@inline
def _pairs(indices: Array, i: int, b: int) -> tuple[Any, Any]:
    """The unary codes of gaps i … i + 15, two to a u64, and the zero bits of each two."""
    quotients = reinterpret(gaps16(indices, i) >> b, 64)
    zeros = quotients & U64(0xFFFFFFFF)
    both = zeros + (quotients >> 32)
    one = splat(U64(1), 8)
    return one << zeros | splat(U64(2), 8) << both, both


@inline
def _write_unary(
    indices: Array, start: int, b: int, eights: Array, codes: Array, position: int, pending: np.uint64
) -> tuple[int, np.uint64]:
    """Append the codes of a full block, eight at a time where they fit a word; ``eights`` is scratch."""
    for i in range(start, start + RICE_BLOCK, 64):
        code0, zeros0 = _pairs(indices, i, b)
        code1, zeros1 = _pairs(indices, i + 16, b)
        code2, zeros2 = _pairs(indices, i + 32, b)
        code3, zeros3 = _pairs(indices, i + 48, b)
        code0, zeros0 = _merged(code0, zeros0, code1, zeros1, 2)
        code2, zeros2 = _merged(code2, zeros2, code3, zeros3, 2)
        code0, zeros0 = _merged(code0, zeros0, code2, zeros2, 4)
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
def _merged(code0: Any, zeros0: Any, code1: Any, zeros1: Any, each: int) -> tuple[Any, Any]:
    """Every two neighbours of two vectors made one; wrong, but for the zeros, where the codes do not fit."""
    zeros = even_lanes(zeros0, zeros1)
    code = even_lanes(code0, code1) | odd_lanes(code0, code1) << (zeros + each)
    return code, zeros + odd_lanes(zeros0, zeros1)
