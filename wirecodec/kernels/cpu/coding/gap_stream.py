"""Gap streams: ascending numbers as one bit stream (formats/spec/index/structured.md, Gap streams).

Each block of 256 numbers begins with its Rice parameter. A gap is a unary quotient followed by its low bits,
so that one load usually covers a whole code. Nothing is aligned, so short streams stay short.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import load64, trailing_zeros
from wirecodec.kernels.layout import GAP_BLOCK, GAP_PARAMETER_BITS

U32 = np.uint32
U64 = np.uint64

MAX_PARAMETER = 24
BAD_LENGTH, BAD_PARAMETER, BAD_RANGE = -1, -2, -3


@inline
def _gap(numbers: Array, i: int) -> np.uint64:
    """Return numbers[i] - numbers[i - 1] - 1, with -1 for numbers[-1]."""
    if i == 0:
        return U64(numbers[0])
    return U64(numbers[i]) - U64(numbers[i - 1]) - U64(1)


@kernel
def plan(numbers: Array, parameters: Array) -> int:
    """Choose the best parameter of each block, and return the stream's length in bits.

    Args:
        numbers: (n,) u32, ascending.
        parameters: (⌈n/256⌉,) u8, written.
    """
    n = numbers.size
    bits = 0
    for block in range(parameters.size):
        start = block * GAP_BLOCK
        stop = min(start + GAP_BLOCK, n)
        m = stop - start
        before = np.int64(numbers[start - 1]) if start > 0 else np.int64(-1)
        total = np.int64(numbers[stop - 1]) - before - m
        scaled = 7 * total // (10 * m)
        f = 0
        while (scaled >> (f + 1)) > 0:
            f += 1
        b0 = max(0, f - 1)  # Only f - 1 … f + 2 can be best, as for rice.
        q0 = q1 = q2 = q3 = U64(0)
        for i in range(start, stop):
            g = _gap(numbers, i) >> U64(b0)
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
        bits += GAP_PARAMETER_BITS + m * (best + 1) + np.int64(quotients)
    return bits


@inline
def put(words: Array, at: int, value: np.uint64) -> None:
    """Put ``value``, of at most 32 bits, into zeroed u64 ``words`` at bit ``at``."""
    word = at >> 6
    shift = U64(at & 63)
    words[word] |= value << shift
    if shift > U64(32) and value >> (U64(64) - shift) != U64(0):
        words[word + 1] |= value >> (U64(64) - shift)


@kernel
def write(numbers: Array, parameters: Array, words: Array, at: int) -> int:
    """Write a planned stream into zeroed u64 ``words`` from bit ``at`` on, and return the bit after it."""
    for block in range(parameters.size):
        b = U64(parameters[block])
        low_mask = (U64(1) << b) - U64(1)
        put(words, at, b)
        at += GAP_PARAMETER_BITS
        for i in range(block * GAP_BLOCK, min((block + 1) * GAP_BLOCK, numbers.size)):
            g = _gap(numbers, i)
            at += np.int64(g >> b)
            put(words, at, ((g & low_mask) << U64(1)) | U64(1))
            at += 1 + np.int64(b)
    return at


@inline
def read_block(data: Array, at: int, stop: int, first: int, bound: int, out: Array) -> int:
    """Read one block of a stream.

    Args:
        data: u8, with at least 16 zero bytes after the stream.
        at: first bit of the block.
        stop: the bit after the stream, within ``data``.
        first: lower bound of the first number.
        bound: exclusive upper bound of all numbers.
        out: (m,) u32, 0 < m <= 256, written.

    Returns:
        The bit after the block, or BAD_*.
    """
    if at + GAP_PARAMETER_BITS > stop:
        return BAD_LENGTH
    b = np.int64((load64(data, at >> 3) >> U64(at & 7)) & U64(31))
    if b > MAX_PARAMETER:
        return BAD_PARAMETER
    at += GAP_PARAMETER_BITS
    low_mask = (U64(1) << U64(b)) - U64(1)
    number = first
    for i in range(out.size):
        q = 0
        window = load64(data, at >> 3) >> U64(at & 7)
        zeros = trailing_zeros(window)
        while zeros + b >= 57:  # Only 57 bits of a window are certain to be the stream's.
            step = min(zeros, 57)
            q += step
            at += step
            if at >= stop:
                return BAD_LENGTH
            window = load64(data, at >> 3) >> U64(at & 7)
            zeros = trailing_zeros(window)
        q += zeros
        at += zeros + 1 + b
        if at > stop:
            return BAD_LENGTH
        number += (q << b) + np.int64((window >> U64(1) >> U64(zeros)) & low_mask)
        if number >= bound:
            return BAD_RANGE
        out[i] = U32(number)
        number += 1
    return at


@kernel
def read(data: Array, at: int, stop: int, bound: int, out: Array) -> int:
    """Read a whole stream into (n,) u32 ``out``; arguments and result are those of ``read_block``."""
    first = 0
    for start in range(0, out.size, GAP_BLOCK):
        block = out[start : start + GAP_BLOCK]
        at = read_block(data, at, stop, first, bound, block)
        if at < 0:
            return at
        first = np.int64(block[block.size - 1]) + 1
    return at
