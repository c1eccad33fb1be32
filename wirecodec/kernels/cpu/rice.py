"""The loops of the Rice index codec (formats/spec/index/rice.md): plan, write, read.

A section is a sequence of spans of 4096 indices; each is written and read without its neighbours. ``plan``
finds the parameter of every block and the length of every span, so that the section is allocated once and
``write`` fills it in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.words import popcount, trailing_zeros

__all__ = [
    "BAD_LENGTH",
    "BAD_PADDING",
    "BAD_RANGE",
    "BAD_UNARY",
    "BLOCK",
    "LANES",
    "SPAN",
    "low_words",
    "plan",
    "read",
    "write",
]

Array = npt.NDArray[Any]
U32 = np.uint32
U64 = np.uint64

SPAN = 4096
BLOCK = 256
LANES = 8
BAD_LENGTH, BAD_PADDING, BAD_UNARY, BAD_RANGE = 1, 2, 3, 4


@inline
def _gap(indices: Array, i: int) -> np.uint64:
    """Gap i of the section: indices[i] - indices[i - 1] - 1, with -1 before the first."""
    if i == 0:
        return U64(indices[0])
    return U64(indices[i]) - U64(indices[i - 1]) - U64(1)


@kernel
def plan(indices: Array, parameters: Array, span_words: Array) -> None:
    """The best parameter of each block (u8) and the length of each span in u32 words (i64), for ascending u32
    ``indices``.
    """
    r = indices.size
    low = 0
    unary = 0
    for block in range(parameters.size):
        start = block * BLOCK
        stop = min(start + BLOCK, r)
        m = stop - start
        before = np.int64(indices[start - 1]) if start > 0 else np.int64(-1)
        total = np.int64(indices[stop - 1]) - before - m
        scaled = 7 * total // (10 * m)  # floor(log2) of this is that of 0.7 * mean, wherever it is at least 1
        f = 0
        while (scaled >> (f + 1)) > 0:
            f += 1
        b0 = max(0, f - 1)  # only f - 1 .. f + 2 can be best
        q0 = q1 = q2 = q3 = U64(0)
        for i in range(start, stop):
            g = _gap(indices, i) >> U64(b0)
            q0 += g
            q1 += g >> U64(1)
            q2 += g >> U64(2)
            q3 += g >> U64(3)
        best = b0
        quotients = q0
        for step, q in ((1, q1), (2, q2), (3, q3)):
            if m * (b0 + step) + np.int64(q) < m * best + np.int64(quotients):
                best = b0 + step
                quotients = q
        parameters[block] = best
        low += LANES * best if m == BLOCK else (m * best + 31) >> 5
        unary += m + np.int64(quotients)
        if stop == r or stop % SPAN == 0:
            span_words[start // SPAN] = low + ((unary + 31) >> 5)
            low = 0
            unary = 0


@kernel
def low_words(parameters: Array, r: int, span: int) -> int:
    """The u32 words that the low bits of a span take."""
    words = 0
    first = span * (SPAN // BLOCK)
    for block in range(first, min(first + SPAN // BLOCK, parameters.size)):
        m = min(BLOCK, r - block * BLOCK)
        b = np.int64(parameters[block])
        words += LANES * b if m == BLOCK else (m * b + 31) >> 5
    return words


@kernel
def write(indices: Array, parameters: Array, starts: Array, words: Array) -> None:
    """All spans into the zeroed u32 ``words``; span c begins at word ``starts[c]``."""
    r = indices.size
    for span in range(starts.size):
        at = starts[span]
        unary = (
            np.int64(starts[span] + low_words(parameters, r, span)) << 5
        )  # the next free bit of the unary part
        first = span * (SPAN // BLOCK)
        for block in range(first, min(first + SPAN // BLOCK, parameters.size)):
            start = block * BLOCK
            m = min(BLOCK, r - start)
            b = np.int64(parameters[block])
            low_mask = (U64(1) << U64(b)) - U64(1)
            full = m == BLOCK
            for j in range(m):
                g = _gap(indices, start + j)
                unary += np.int64(g >> U64(b))
                words[unary >> 5] |= U32(1) << U32(unary & 31)
                unary += 1
                if b > 0:
                    bit = (j >> 3) * b if full else j * b
                    word = at + (LANES * (bit >> 5) + (j & 7) if full else bit >> 5)
                    low = (g & low_mask) << U64(bit & 31)
                    words[word] |= U32(low & U64(0xFFFFFFFF))
                    if (bit & 31) + b > 32:
                        words[word + (LANES if full else 1)] |= U32(low >> U64(32))
            at += LANES * b if full else (m * b + 31) >> 5


@kernel
def read(words: Array, starts: Array, bases: Array, parameters: Array, d: int, span: int, out: Array) -> int:
    """One span's indices into u32 ``out`` (its gaps' number); 0, or which check failed (BAD_*).

    ``starts`` (n_spans + 1,) are the spans' first words, all within ``words``; ``bases`` and ``parameters``
    have been checked.
    """
    n = out.size
    r = span * SPAN + n  # low_words needs no more of r than the end of this span
    low_total = low_words(parameters, r, span)
    at = starts[span]
    stop = starts[span + 1]
    unary = at + low_total
    if stop - at < low_total + 1:
        return BAD_LENGTH
    tail = n % BLOCK
    if tail > 0:
        bits = tail * np.int64(parameters[(span * SPAN + n - 1) // BLOCK])
        if bits & 31 and words[unary - 1] >> U32(bits & 31):
            return BAD_PADDING
    ones = 0
    for w in range(unary, stop):
        ones += popcount(U64(words[w]))
    if ones != n or words[stop - 1] == U32(0):
        return BAD_UNARY
    w = unary
    pending = U64(words[w])
    previous = np.int64(-1)  # bit of the last one bit, counted from the unary part's start
    index = U64(bases[span])  # the least value that the next index can take
    first = span * (SPAN // BLOCK)
    for block in range(first, first + (n + BLOCK - 1) // BLOCK):
        begin = (block - first) * BLOCK
        m = min(BLOCK, n - begin)
        b = np.int64(parameters[block])
        low_mask = (U64(1) << U64(b)) - U64(1)
        full = m == BLOCK
        for j in range(m):
            while pending == U64(0):
                w += 1
                pending = U64(words[w])
            one = ((w - unary) << 5) + trailing_zeros(pending)
            pending &= pending - U64(1)
            low = U64(0)
            if b > 0:
                bit = (j >> 3) * b if full else j * b
                word = at + (LANES * (bit >> 5) + (j & 7) if full else bit >> 5)
                low = U64(words[word]) >> U64(bit & 31)
                if (bit & 31) + b > 32:
                    low |= U64(words[word + (LANES if full else 1)]) << U64(32 - (bit & 31))
                low &= low_mask
            index += (U64(one - previous - 1) << U64(b)) | low
            previous = one
            out[begin + j] = U32(index & U64(0xFFFFFFFF))
            index += U64(1)
        if index > U64(d):  # indices only grow: the block's last one decides for all of them
            return BAD_RANGE
        at += LANES * b if full else (m * b + 31) >> 5
    return 0
