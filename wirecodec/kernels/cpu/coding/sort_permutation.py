"""Sorted values, and the permutation that restores their order (formats/spec/map/packed.md).

A stable radix sort by 8-bit digits sorts pairs of a 32-bit key and a 32-bit position. A digit that all keys
share costs no pass. A key is a float's raw bits, mapped so that keys compare as the numbers do, -0 before +0.
float64 is sorted twice, by the lower halves of the keys first.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import bit_width
from wirecodec.kernels.cpu.simd.words import load64, store64

U32 = np.uint32
U64 = np.uint64
DIGIT = 8
DIGITS = 1 << DIGIT
LOW = U64(0xFFFFFFFF)


@inline
def _key(word: np.uint64, width: int) -> np.uint64:
    """Map a float's raw bits to an unsigned key of the same order."""
    sign = U64(1) << U64(width - 1)
    return ~word & (sign | (sign - U64(1))) if word & sign else word | sign


@kernel
def pairs_of(bits: Array, before: Array, pairs: Array) -> None:
    """Build the pairs of keys and positions.

    Args:
        bits: (r,) unsigned, raw bits of the floats.
        before: (r,) u64 pairs sorted by the lower halves, whose order the pairs of upper halves follow; (0,)
            to build pairs of the lower halves.
        pairs: (r,) u64, written.
    """
    width = bit_width(bits)
    for i in range(pairs.size):
        at = before[i] & LOW if before.size else U64(i)
        key = _key(U64(bits[at]), width)
        pairs[i] = (key >> U64(32 if before.size else 0)) << U64(32) | at


@kernel
def sort_pairs(pairs: Array, width: int) -> Array:
    """Return the pairs (u64) sorted by the ``width`` bits from bit 32 on; equal ones keep their order."""
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
    """Split sorted pairs into positions and the floats' raw bits at those positions.

    Args:
        pairs: (r,) u64, sorted.
        bits: (r,) unsigned, raw bits of the floats; not read if a key holds all of a float.
        order: (r,) u32, written: the positions.
        out: (r,) of the type of ``bits``, written.
    """
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
    """Set out[order[i]] = words[i] for all i; every position is in range."""
    for i in range(out.size):
        out[order[i]] = words[i]


@kernel
def pack_bits(numbers: Array, width: int, out: Array) -> None:
    """Pack u32 numbers of ``width`` bits, 1 to 24, as one bit stream; ``out`` has 8 spare bytes."""
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
    """Unpack a bit stream of numbers, and return whether they are a permutation of 0 … r - 1.

    Args:
        stream: u8, with 8 spare bytes.
        width: bits per number, ⌈log₂ r⌉, 1 to 24.
        order: (r,) u32, written; each number is below r, whatever the bits.
        seen: (⌈r/64⌉,) u64, zeroed; scratch.
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
