"""Binary arithmetic coder with adaptive probabilities (formats/spec/index/context.md, The coder).

A context's state is one u32: 22 bits of probability above a 10-bit count of the bits coded in that context.
A ``Coder`` is a tuple (low, width, at), so that it stays in registers. A writer's ``low`` is the lower end of
the interval. A reader's is the distance from that end to the section's number. ``width`` is the interval's
width, and ``at`` counts the bytes written or read. The same functions write and read, so that each coding
loop exists once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts

U32 = np.uint32
U64 = np.uint64

Coder: TypeAlias = "tuple[np.uint64, np.uint64, np.int64]"

ONE = 1 << 22
"""Probability 1 in fixed point."""
AHEAD = 3
"""Bytes that a reader has read past the section when it ends; they count as zeros."""
_COUNT_BITS = 10
_MAX_COUNT = 255
_RATES = np.array([131_072 // (2 * n + 3) for n in range(_MAX_COUNT + 1)], np.int64)
_LOW_WORD = U64(0xFFFFFFFF)
_MIN_WIDTH = U64(1 << 24)


@inline_without_refcounts
def initial_state(probability: np.int64) -> U32:
    """Return the state of a context that starts with this probability."""
    return U32((probability << _COUNT_BITS) | 1)


@inline_without_refcounts
def _byte_at(data: Array, at: np.int64) -> U64:
    return U64(data[at]) if at < data.size else U64(0)


@inline_without_refcounts
def begin(data: Array, writes: bool) -> Coder:
    """Return the coder for the start of a section."""
    low = U64(0)
    at = np.int64(0)
    if not writes:
        while at <= AHEAD:
            low = (low << U64(8)) | _byte_at(data, at)
            at += 1
    return low, _LOW_WORD, at


@inline_without_refcounts
def _carry(data: Array, at: np.int64) -> None:
    """Propagate a carry out of ``low`` into the bytes already written."""
    at = min(at, data.size) - 1
    while at >= 0:
        data[at] = np.uint8(data[at] + 1)
        if data[at] != 0:
            break
        at -= 1


@inline_without_refcounts
def _split(state: U32, bit: bool, writes: bool, coder: Coder) -> tuple[bool, U32, Coder]:
    """Code a bit; return the bit, the context's new state, and the coder with the narrowed interval."""
    low, width, at = coder
    probability, count = np.int64(state >> U32(_COUNT_BITS)), np.int64(state & U32((1 << _COUNT_BITS) - 1))
    bound = U64((width >> U64(16)) * U64(min(max(probability >> 6, 1), 65_535)))
    if not writes:
        bit = low < bound
    if bit:
        width = bound
        probability += ((ONE - 1 - probability) * _RATES[count]) >> 16
    else:
        width = U64(width - bound)
        probability += (-probability * _RATES[count]) >> 16
        low = U64(low + bound) if writes else U64(low - bound)
    return bit, U32((probability << _COUNT_BITS) | min(count + 1, _MAX_COUNT)), (low, width, at)


@inline_without_refcounts
def _shift(data: Array, writes: bool, coder: Coder) -> Coder:
    """Write or read bytes until the interval is at least 2^24 wide."""
    low, width, at = coder
    if low > _LOW_WORD:
        _carry(data, at)
        low &= _LOW_WORD
    while width < _MIN_WIDTH:
        width <<= U64(8)
        if writes:
            if at < data.size:
                data[at] = np.uint8(low >> U64(24))
            low = (low << U64(8)) & _LOW_WORD
        else:
            low = (low << U64(8)) | _byte_at(data, at)
        at += 1
    return low, width, at


@inline_without_refcounts
def code(
    data: Array, contexts: Array, context: np.int64, bit: bool, writes: bool, coder: Coder
) -> tuple[bool, Coder]:
    """Code one bit, and adapt its context to it.

    Args:
        data: the section.
        contexts: (n,) u32 states.
        context: index of the state to use.
        bit: the bit to write; ignored by a reader.
        writes: True to write, False to read.
        coder: the current coder.

    Returns:
        (the bit, the coder after it).
    """
    bit, contexts[context], coder = _split(contexts[context], bit, writes, coder)
    if coder[1] < _MIN_WIDTH:
        coder = _shift(data, writes, coder)
    return bit, coder


@inline_without_refcounts
def finish(data: Array, coder: Coder) -> np.int64:
    """Write the last byte, and return the section's length in bytes.

    The length exceeds ``data.size`` if the section did not fit.
    """
    low, _, at = coder
    low = U64(low + _MIN_WIDTH - U64(1))
    if low > _LOW_WORD:
        _carry(data, at)
    if at < data.size:
        data[at] = np.uint8((low & _LOW_WORD) >> U64(24))
    return at + 1
