"""Values in ascending order, and the permutation that takes them back (formats/spec/map/packed.md).

A stable radix sort by digits of 11 bits; digits that all keys share cost no pass. A key is a float's bits,
turned so that keys order as the numbers do, -0 before +0.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.memory import width_of
from wirecodec.kernels.cpu.words import load64, store64

__all__ = ["ascending_order", "gather", "keys_of", "pack_bits", "scatter", "unpack_permutation"]

U32 = np.uint32
U64 = np.uint64
DIGIT = 11
DIGITS = 1 << DIGIT


@kernel
def keys_of(bits: Array, keys: Array) -> None:
    """Keys (u64) that order as the floats with these bits: negative ones turned over, the others above."""
    width = width_of(bits)
    sign = U64(1) << U64(width - 1)
    every = (sign - U64(1)) | sign
    for i in range(bits.size):
        word = U64(bits[i])
        keys[i] = (word ^ every) if word & sign else word | sign


@inline
def _count(keys: Array, counts: Array, passes: int) -> None:
    counts[:] = 0
    for i in range(keys.size):
        key = U64(keys[i])
        for p in range(passes):
            counts[p, key & U64(DIGITS - 1)] += 1
            key >>= U64(DIGIT)


@kernel
def ascending_order(keys: Array, order: Array, passes: int) -> None:
    """The positions (u32) of ``keys`` in ascending order, equal ones as they stand; ``keys`` are lost.

    Args:
        keys: (r,) u64, below 2^(11·passes).
        order: (r,) written.
        passes: 2, 3 or 6.
    """
    n = keys.size
    counts = np.empty((passes, DIGITS), np.uint32)
    _count(keys, counts, passes)
    other, positions, swapped = np.empty_like(keys), np.empty_like(order), np.empty_like(order)
    for i in range(n):
        positions[i] = i
    for p in range(passes):
        shift = U64(DIGIT * p)
        if n == 0 or counts[p, (keys[0] >> shift) & U64(DIGITS - 1)] == n:
            continue
        start = U32(0)
        for d in range(DIGITS):
            count = counts[p, d]
            counts[p, d] = start
            start = U32(start + count)
        for i in range(n):
            digit = (keys[i] >> shift) & U64(DIGITS - 1)
            at = counts[p, digit]
            other[at], swapped[at] = keys[i], positions[i]
            counts[p, digit] = U32(at + U32(1))
        keys, other = other, keys
        positions, swapped = swapped, positions
    order[:] = positions


@kernel
def gather(words: Array, order: Array, out: Array) -> None:
    """out[i] = words[order[i]]."""
    for i in range(out.size):
        out[i] = words[order[i]]


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
