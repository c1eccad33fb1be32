"""A binary arithmetic coder with adaptive probabilities (formats/spec/index/context.md, The coder).

One word of state a context: 22 bits of probability, and below them 10 bits that count what was learned. A
``Coder`` is three numbers: the lower end of an interval, or how far above it the section lies; its width; and
how many bytes were written or taken. It stays in registers that way. The same calls write and read, so that a
loop that codes is written once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline_without_refcounts

__all__ = ["AHEAD", "ONE", "Coder", "begin", "code", "finish", "learned"]

U32 = np.uint32
U64 = np.uint64

Coder: TypeAlias = "tuple[np.uint64, np.uint64, np.int64]"

ONE = 1 << 22
"""The probability 1."""
AHEAD = 3
"""Bytes that a reader has taken beyond the section at its end; they count as zeros."""
_COUNTS = 10
_MOST = 255
_RATES = np.array([131_072 // (2 * n + 3) for n in range(_MOST + 1)], np.int64)
_WORD = U64(0xFFFFFFFF)
_LEAST = U64(1 << 24)


@inline_without_refcounts
def learned(probability: np.int64) -> U32:
    """A context that begins with this probability."""
    return U32((probability << _COUNTS) | 1)


@inline_without_refcounts
def _next(data: Array, at: np.int64) -> U64:
    return U64(data[at]) if at < data.size else U64(0)


@inline_without_refcounts
def begin(data: Array, writes: bool) -> Coder:
    """A coder at the start of a section that it writes or reads."""
    low = U64(0)
    at = np.int64(0)
    if not writes:
        while at <= AHEAD:
            low = (low << U64(8)) | _next(data, at)
            at += 1
    return low, _WORD, at


@inline_without_refcounts
def _carry(data: Array, at: np.int64) -> None:
    """A sum that left the word goes to the bytes before."""
    at = min(at, data.size) - 1
    while at >= 0:
        data[at] = np.uint8(data[at] + 1)
        if data[at] != 0:
            break
        at -= 1


@inline_without_refcounts
def _split(state: U32, bit: bool, writes: bool, coder: Coder) -> tuple[bool, U32, Coder]:
    """The bit, what is learned from it, and the part of the interval that it leaves."""
    low, width, at = coder
    probability, count = np.int64(state >> U32(_COUNTS)), np.int64(state & U32((1 << _COUNTS) - 1))
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
    return bit, U32((probability << _COUNTS) | min(count + 1, _MOST)), (low, width, at)


@inline_without_refcounts
def _shift(data: Array, writes: bool, coder: Coder) -> Coder:
    """Bytes in or out, until the interval is wide again."""
    low, width, at = coder
    if low > _WORD:
        _carry(data, at)
        low &= _WORD
    while width < _LEAST:
        width <<= U64(8)
        if writes:
            if at < data.size:
                data[at] = np.uint8(low >> U64(24))
            low = (low << U64(8)) & _WORD
        else:
            low = (low << U64(8)) | _next(data, at)
        at += 1
    return low, width, at


@inline_without_refcounts
def code(
    data: Array, contexts: Array, context: np.int64, bit: bool, writes: bool, coder: Coder
) -> tuple[bool, Coder]:
    """Code one bit in its context, which learns from it.

    Args:
        data: the section.
        contexts: (n,) u32 states.
        context: which of them.
        bit: what a writer writes.
        writes: whether this is a writer.
        coder: as it stands.

    Returns the bit and the coder after it.
    """
    bit, contexts[context], coder = _split(contexts[context], bit, writes, coder)
    if coder[1] < _LEAST:
        coder = _shift(data, writes, coder)
    return bit, coder


@inline_without_refcounts
def finish(data: Array, coder: Coder) -> np.int64:
    """Write the last byte; the section's bytes, more than ``data`` has room for where it was too small."""
    low, _, at = coder
    low = U64(low + _LEAST - U64(1))
    if low > _WORD:
        _carry(data, at)
    if at < data.size:
        data[at] = np.uint8((low & _WORD) >> U64(24))
    return at + 1
