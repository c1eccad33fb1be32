"""The loops of the Rice index codec (formats/spec/index/rice.md): plan, write, read.

A section is a sequence of spans of 4096 indices; each is written and read without its neighbours. ``plan``
finds the parameter of every block and the length of every span, so that the section is allocated once and
``write`` fills it in place.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.words import popcount, trailing_zeros
from wirecodec.kernels.layout import RICE_BLOCK, RICE_LANES, RICE_SPAN

__all__ = ["BAD_LENGTH", "BAD_PADDING", "BAD_RANGE", "BAD_UNARY", "low_words", "plan", "read", "write"]

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_PADDING, BAD_UNARY, BAD_RANGE = 1, 2, 3, 4


@inline
def _gap(indices: Array, i: int) -> np.uint64:
    """Gap i of the section: indices[i] - indices[i - 1] - 1, with -1 before the first."""
    if i == 0:
        return U64(indices[0])
    return U64(indices[i]) - U64(indices[i - 1]) - U64(1)


@kernel
def plan(indices: Array, parameters: Array, span_words: Array) -> None:
    """The best parameter of each block (u8), and the length of each span in u32 words (i64).

    Args:
        indices: (r,) u32, ascending, r > 0.
        parameters: (⌈r/256⌉,), written.
        span_words: (⌈r/4096⌉,), written.
    """
    r = indices.size
    low = 0
    unary = 0
    for block in range(parameters.size):
        start = block * RICE_BLOCK
        stop = min(start + RICE_BLOCK, r)
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
        low += RICE_LANES * best if m == RICE_BLOCK else (m * best + 31) >> 5
        unary += m + np.int64(quotients)
        if stop == r or stop % RICE_SPAN == 0:
            span_words[start // RICE_SPAN] = low + ((unary + 31) >> 5)
            low = 0
            unary = 0


@kernel
def low_words(parameters: Array, r: int, span: int) -> int:
    """The u32 words that the low bits of a span take."""
    words = 0
    first = span * (RICE_SPAN // RICE_BLOCK)
    for block in range(first, min(first + RICE_SPAN // RICE_BLOCK, parameters.size)):
        m = min(RICE_BLOCK, r - block * RICE_BLOCK)
        b = np.int64(parameters[block])
        words += RICE_LANES * b if m == RICE_BLOCK else (m * b + 31) >> 5
    return words


@kernel
def write(indices: Array, parameters: Array, starts: Array, words: Array) -> None:
    """All spans into zeroed words.

    Args:
        indices: (r,) u32, ascending.
        parameters: of the blocks, from ``plan``.
        starts: (n_spans,) first word of each span.
        words: u32, zeroed, as many as the plan's spans take.
    """
    r = indices.size
    for span in range(starts.size):
        at = starts[span]
        # The next free bit of the unary part.
        unary = np.int64(starts[span] + low_words(parameters, r, span)) << 5
        first = span * (RICE_SPAN // RICE_BLOCK)
        for block in range(first, min(first + RICE_SPAN // RICE_BLOCK, parameters.size)):
            start = block * RICE_BLOCK
            m = min(RICE_BLOCK, r - start)
            b = np.int64(parameters[block])
            low_mask = (U64(1) << U64(b)) - U64(1)
            full = m == RICE_BLOCK
            for j in range(m):
                g = _gap(indices, start + j)
                unary += np.int64(g >> U64(b))
                words[unary >> 5] |= U32(1) << U32(unary & 31)
                unary += 1
                if b > 0:
                    bit = (j >> 3) * b if full else j * b
                    word = at + (RICE_LANES * (bit >> 5) + (j & 7) if full else bit >> 5)
                    low = (g & low_mask) << U64(bit & 31)
                    words[word] |= U32(low & U64(0xFFFFFFFF))
                    if (bit & 31) + b > 32:
                        words[word + (RICE_LANES if full else 1)] |= U32(low >> U64(32))
            at += RICE_LANES * b if full else (m * b + 31) >> 5


@kernel
def read(words: Array, starts: Array, bases: Array, parameters: Array, d: int, span: int, out: Array) -> int:
    """One span's indices; 0, or which check failed (BAD_*).

    Args:
        words: the u32 words of all spans.
        starts: (n_spans + 1,) first word of each span, and where the last ends; all within ``words``.
        bases: (n_spans,) least value of each span's first index.
        parameters: of all blocks, checked.
        d: elements of the chunk.
        span: which one.
        out: u32, one for each of its gaps.
    """
    n = out.size
    r = span * RICE_SPAN + n  # low_words needs no more of r than the end of this span
    low_total = low_words(parameters, r, span)
    at = starts[span]
    stop = starts[span + 1]
    unary = at + low_total
    if stop - at < low_total + 1:
        return BAD_LENGTH
    tail = n % RICE_BLOCK
    if tail > 0:
        bits = tail * np.int64(parameters[(span * RICE_SPAN + n - 1) // RICE_BLOCK])
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
    first = span * (RICE_SPAN // RICE_BLOCK)
    for block in range(first, first + (n + RICE_BLOCK - 1) // RICE_BLOCK):
        begin = (block - first) * RICE_BLOCK
        m = min(RICE_BLOCK, n - begin)
        b = np.int64(parameters[block])
        low_mask = (U64(1) << U64(b)) - U64(1)
        full = m == RICE_BLOCK
        for j in range(m):
            while pending == U64(0):
                w += 1
                if w == stop:  # another thread writes to the buffer
                    return BAD_UNARY
                pending = U64(words[w])
            one = ((w - unary) << 5) + trailing_zeros(pending)
            pending &= pending - U64(1)
            low = U64(0)
            if b > 0:
                bit = (j >> 3) * b if full else j * b
                word = at + (RICE_LANES * (bit >> 5) + (j & 7) if full else bit >> 5)
                low = U64(words[word]) >> U64(bit & 31)
                if (bit & 31) + b > 32:
                    low |= U64(words[word + (RICE_LANES if full else 1)]) << U64(32 - (bit & 31))
                low &= low_mask
            index += (U64(one - previous - 1) << U64(b)) | low
            previous = one
            out[begin + j] = U32(index & U64(0xFFFFFFFF))
            index += U64(1)
        if index > U64(d):  # indices only grow: the block's last one decides for all of them
            return BAD_RANGE
        at += RICE_LANES * b if full else (m * b + 31) >> 5
    return 0
