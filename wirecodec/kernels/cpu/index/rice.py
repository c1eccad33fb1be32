"""Kernels of the Rice index codec (formats/spec/index/rice.md): block parameters and span lengths.

A section is a sequence of spans of 4096 indices. Each span is written (``rice_write``) and read
(``rice_read``) independently, so that all loops accept ranges of spans.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector import load, reduce_add, shift_in, splat
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.cpu.threads import next_unit, run_parallel
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN

U32 = np.uint32
U64 = np.uint64

PARAMETER_BITS, MAX_PARAMETER = 5, 24
SPAN_BLOCKS = RICE_SPAN // RICE_BLOCK

UNIT_SPANS, MIN_UNITS_PER_THREAD = 4, 4
"""Spans per unit of work, and the units per thread below which no thread is started."""


@inline
def gap(indices: Array, i: int) -> np.uint64:
    """Return gap i: indices[i] - indices[i - 1] - 1, with -1 for indices[-1]."""
    if i == 0:
        return U64(indices[0])
    return U64(U32(indices[i] - indices[i - 1] - U32(1)))


@inline
def gaps8(indices: Array, i: int) -> Any:
    """Return the gaps i … i + 7 as a vector."""
    here = load(indices, i, 8)
    before = load(indices, i - 1, 8) if i > 0 else shift_in(here, U32(0xFFFFFFFF))
    return here - before - 1


@inline
def gaps16(indices: Array, i: int) -> Any:
    """Return the gaps i … i + 15 as a vector."""
    here = load(indices, i, 16)
    before = load(indices, i - 1, 16) if i > 0 else shift_in(here, U32(0xFFFFFFFF))
    return here - before - 1


@inline
def directory_words(r: int) -> int:
    """Return the u32 words of the directory, which precedes the spans."""
    inner, blocks = (r - 1) // RICE_SPAN, (r - 1) // RICE_BLOCK + 1
    return (48 * inner + PARAMETER_BITS * blocks + 31) >> 5


@inline
def low_words(parameters: Array, r: int, span: int) -> int:
    """Return the u32 words that the low bits of a span take."""
    words = 0
    for block in range(span * SPAN_BLOCKS, min((span + 1) * SPAN_BLOCKS, parameters.size)):
        m = min(RICE_BLOCK, r - block * RICE_BLOCK)
        words += (m * np.int64(parameters[block]) + 31) >> 5
    return words


def plan(indices: Array, parameters: Array, span_words: Array) -> None:
    """Choose the best parameter of each block, and compute the length of each span.

    Args:
        indices: (r,) u32, ascending, r > 0.
        parameters: (⌈r/256⌉,) u8, written.
        span_words: (⌈r/4096⌉,) i64, written: lengths in u32 words.
    """
    units = -(-span_words.size // UNIT_SPANS)
    run_parallel(lambda turns: _plan(indices, parameters, span_words, turns), units, MIN_UNITS_PER_THREAD)


@kernel
def _plan(indices: Array, parameters: Array, span_words: Array, turns: Array) -> None:
    """See ``plan``."""
    unit = next_unit(turns, -1)
    while unit >= 0:
        for span in range(unit * UNIT_SPANS, min((unit + 1) * UNIT_SPANS, span_words.size)):
            span_words[span] = plan_span(indices, span, parameters)
        unit = next_unit(turns, unit)


@inline
def plan_span(indices: Array, span: int, parameters: Array) -> int:
    """Choose the parameters of one span, and return its length in u32 words."""
    low = unary = 0
    for block in range(span * SPAN_BLOCKS, min((span + 1) * SPAN_BLOCKS, parameters.size)):
        start = block * RICE_BLOCK
        stop = min(start + RICE_BLOCK, indices.size)
        b, quotients = _choose_parameter(indices, start, stop)
        parameters[block] = b
        low += ((stop - start) * b + 31) >> 5
        unary += stop - start + quotients
    return low + ((unary + 31) >> 5)


@inline
def _choose_parameter(indices: Array, start: int, stop: int) -> tuple[int, int]:
    """Return the best parameter of a block and the sum of its quotients."""
    m = stop - start
    before = np.int64(indices[start - 1]) if start > 0 else np.int64(-1)
    zeros = np.int64(indices[stop - 1]) - before - m
    scaled = 7 * zeros // (10 * m)  # ⌊log2⌋ of this equals that of 0.7 * mean if it is at least 1.
    f = 63 - leading_zeros(U64(scaled) | U64(1))
    b0 = max(0, min(f - 1, MAX_PARAMETER - 3))  # Only f - 1 … f + 2 can be best.
    rows = splat(U32(0), 16)
    rows0, rows1, rows2, rows3 = rows, rows, rows, rows
    whole = start + (m & -16)
    for i in range(start, whole, 16):
        q = gaps16(indices, i) >> b0
        rows0 += q
        rows1 += q >> 1
        rows2 += q >> 2
        rows3 += q >> 3
    q0, q1, q2, q3 = (
        U64(reduce_add(rows0)),
        U64(reduce_add(rows1)),
        U64(reduce_add(rows2)),
        U64(reduce_add(rows3)),
    )
    for i in range(whole, stop):
        g = gap(indices, i) >> U64(b0)
        q0 += g
        q1 += g >> U64(1)
        q2 += g >> U64(2)
        q3 += g >> U64(3)
    best, quotients = b0, np.int64(q0)
    for step, q in ((1, q1), (2, q2), (3, q3)):
        if m * (b0 + step) + np.int64(q) < m * best + quotients:
            best, quotients = b0 + step, np.int64(q)
    return best, quotients
