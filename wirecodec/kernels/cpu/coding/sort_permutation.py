"""Values in ascending order, and the permutation that takes them back (formats/spec/map/packed.md).

A stable radix sort of pairs, a key of 32 bits above a position, by digits of 8 bits; digits that all keys
share cost no pass. A key is a float's bits, turned so that keys order as the numbers do, -0 before +0; those
of float64 are sorted by their lower halves first.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import bit_width
from wirecodec.kernels.cpu.simd.words import load64, store64

__all__ = ["pack_bits", "pairs_of", "scatter", "sort_pairs", "split_pairs", "unpack_permutation"]

U32 = np.uint32
U64 = np.uint64
DIGIT = 8
DIGITS = 1 << DIGIT
LOW = U64(0xFFFFFFFF)


@inline
def _key(word: np.uint64, width: int) -> np.uint64:
    """Of the float with these bits: a negative one's turned over, the others' above."""
    sign = U64(1) << U64(width - 1)
    return ~word & (sign | (sign - U64(1))) if word & sign else word | sign


@kernel
def pairs_of(bits: Array, before: Array, pairs: Array) -> None:
    """Keys and positions of floats by their bits.

    Args:
        bits: (r,) unsigned.
        before: pairs in whose order the keys, then their upper halves, are taken; none for lower halves.
        pairs: (r,) u64, written.
    """
    width = bit_width(bits)
    for i in range(pairs.size):
        at = before[i] & LOW if before.size else U64(i)
        key = _key(U64(bits[at]), width)
        pairs[i] = (key >> U64(32 if before.size else 0)) << U64(32) | at


@kernel
def sort_pairs(pairs: Array, width: int) -> Array:
    """The pairs (u64) in ascending order of ``width`` bits from bit 32 on, equal ones as they stand."""
    n = pairs.size
    passes = (width + DIGIT - 1) // DIGIT
    counts = np.zeros((4, DIGITS), np.uint32)
    for i in range(n):
        key = pairs[i] >> U64(32)
        for p in range(passes):
            counts[p, key & U64(DIGITS - 1)] += U32(1)
            key >>= U64(DIGIT)
    other = np.empty_like(pairs)
    for p in range(passes):
        shift = U64(32 + DIGIT * p)
        if n == 0 or counts[p, (pairs[0] >> shift) & U64(DIGITS - 1)] == n:
            continue
        start = U32(0)
        for d in range(DIGITS):
            count = counts[p, d]
            counts[p, d] = start
            start = U32(start + count)
        for i in range(n):
            pair = pairs[i]
            digit = (pair >> shift) & U64(DIGITS - 1)
            at = counts[p, digit]
            other[at] = pair
            counts[p, digit] = U32(at + U32(1))
        pairs, other = other, pairs
    return pairs


@kernel
def split_pairs(pairs: Array, bits: Array, order: Array, out: Array) -> None:
    """The positions (u32) of pairs, and the floats' ``bits`` at them, which a key of 32 bits holds itself."""
    width = bit_width(bits)
    sign = U64(1) << U64(width - 1)
    for i in range(pairs.size):
        at = pairs[i] & LOW
        order[i] = at
        if width > 32:
            out[i] = bits[at]
        else:
            key = pairs[i] >> U64(32)
            out[i] = key ^ sign if key & sign else ~key & (sign | (sign - U64(1)))


@kernel
def scatter(words: Array, order: Array, out: Array) -> None:
    """out[order[i]] = words[i]; every position is below the sizes."""
    for i in range(out.size):
        out[order[i]] = words[i]


@kernel
def pack_bits(numbers: Array, width: int, out: Array) -> None:
    """Numbers (u32) of ``width`` bits, 1 to 24, as one bit stream; ``out`` has 8 bytes to spare."""
    held, filled, at = U64(0), 0, 0
    for i in range(numbers.size):
        number = U64(numbers[i])
        held |= number << U64(filled)
        filled += width
        if filled >= 64:
            store64(out, at, held)
            at += 8
            filled -= 64
            held = number >> U64(width - filled)
    store64(out, at, held)


@kernel
def unpack_permutation(stream: Array, width: int, order: Array, seen: Array) -> bool:
    """Numbers (u32) of ``width`` bits from a bit stream with 8 bytes to spare; whether they permute 0 … r-1.

    Args:
        stream: u8.
        width: ⌈log₂ r⌉, 1 to 24.
        order: (r,) u32, written; each below r, whatever the bits.
        seen: (⌈r/64⌉,) u64, zero.
    """
    mask = (U64(1) << U64(width)) - U64(1)
    last = U64(order.size - 1)
    wrong = U64(0)
    for i in range(order.size):
        bit = np.int64(i) * width
        number = (load64(stream, bit >> 3) >> U64(bit & 7)) & mask
        wrong |= U64(number > last)
        number = min(number, last)
        order[i] = number
        word = seen[number >> U64(6)]
        wrong |= (word >> (number & U64(63))) & U64(1)
        seen[number >> U64(6)] = word | (U64(1) << (number & U64(63)))
    return wrong == U64(0)
