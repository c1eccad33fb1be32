"""LEB128 varints of numbers below 2^28: 7 bits per byte, low bits first, bit 7 set on all bytes but the last.

The codecs ``delta`` and ``rle`` use them. A reader copies the section between ``FRONT`` bytes of 0 and
``BACK`` bytes of 0x80, and calls ``survey`` on that private copy. ``read`` then trusts its result.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import load64, popcount, store64, trailing_zeros

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

GROUP = 64
"""Bytes that one step of ``read`` decodes."""
FRONT, BACK = 8, GROUP + 8

_HIGH = U64(0x8080808080808080)
_BLOCK = 64


@inline
def size(values: Array) -> np.int64:
    """Return the total length of the u32 ``values`` in bytes."""
    total = np.int64(0)
    for start in range(0, values.size, 4096):
        block = values[start : start + 4096]
        longer = U32(0)
        for i in range(block.size):
            # One comparison per line, because Numba widens sums of comparisons to 64 bits.
            longer = U32(longer + U32(block[i] >= U32(1 << 7)))
            longer = U32(longer + U32(block[i] >= U32(1 << 14)))
            longer = U32(longer + U32(block[i] >= U32(1 << 21)))
        total += block.size + np.int64(longer)
    return total


@inline
def write(values: Array, section: Array, at: np.int64) -> np.int64:
    """Write the u32 ``values`` into the u8 ``section`` from byte ``at`` on, and return the byte after them.

    The section has 7 bytes more than the values need.
    """
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        largest = U32(0)
        for i in range(block.size):
            largest = U32(largest | block[i])
        if largest < U32(1 << 7):
            target = section[at : at + block.size]
            for i in range(block.size):
                target[i] = U8(block[i])
            at += block.size
        elif largest < U32(1 << 14) and block.size == _BLOCK:
            for i in range(0, _BLOCK, 4):
                word = U64(0)
                bits = U64(0)
                for k in range(4):
                    value = U64(block[i + k])
                    longer = U64(value >= U64(1 << 7))
                    word |= ((value & U64(0x7F)) | (longer << U64(7)) | ((value >> U64(7)) << U64(8))) << bits
                    bits += U64(8) + (longer << U64(3))
                store64(section, at, word)
                at += np.int64(bits >> U64(3))
        else:
            for i in range(block.size):
                value = U64(block[i])
                longer = np.int64(value >= U64(1 << 7)) + np.int64(value >= U64(1 << 14))
                longer += np.int64(value >= U64(1 << 21))
                word = (value & U64(0x7F)) | (value & U64(0x3F80)) << U64(1)
                word |= (value & U64(0x1FC000)) << U64(2) | (value & U64(0xFE00000)) << U64(3)
                word |= U64(0x808080) & ((U64(1) << U64(8 * longer)) - U64(1))
                store64(section, at, word)
                at += 1 + longer
    return at


@kernel
def survey(framed: Array, length: int) -> tuple[int, bool]:
    """Count the numbers of a section, and check their form.

    Args:
        framed: u8, a copy of the section between ``FRONT`` and ``BACK`` bytes.
        length: bytes of the section.

    Returns:
        (how many numbers end in it, whether one is over-long or takes more than 4 bytes).
    """
    ends = 0
    malformed = U64(0)
    stop = FRONT + length
    for at in range(FRONT, stop, 8):
        left = stop - at
        high = _HIGH if left >= 8 else _HIGH & ((U64(1) << U64(8 * left)) - U64(1))
        word = load64(framed, at)
        before = load64(framed, at - 1)
        ends += popcount(~word & high)
        zero = ~(((word & ~_HIGH) + ~_HIGH) | word)
        malformed |= (zero | (word & load64(framed, at - 2) & load64(framed, at - 3))) & before & high
    return ends, malformed != U64(0)


@inline
def read(
    framed: Array, start: np.int64, stop: np.int64, values: Array, j: np.int64, last: np.int64
) -> tuple[int, int]:
    """Read the numbers that end in some whole groups of bytes.

    Args:
        framed: u8, checked by ``survey``.
        start: first byte of the first group.
        stop: a byte of the last group, or the byte after it.
        values: u32 output buffer, large enough for the numbers.
        j: position of the first number in ``values``.
        last: last byte of the number before it.

    Returns:
        (the position after the last number, the last byte of that number).
    """
    filled = j
    for at in range(start, stop, GROUP):
        ends = U64(0)
        for k in range(8):
            high = ~load64(framed, at + 8 * k) & _HIGH
            ends |= ((high >> U64(7)) * U64(0x0102040810204080) >> U64(56)) << U64(8 * k)
        if ends == ~U64(0) and last == at - 1:
            group = framed[at : at + GROUP]
            target = values[j : j + GROUP]
            for k in range(GROUP):
                target[k] = U32(group[k])
            j += GROUP
            last = at + GROUP - 1
        else:
            while ends != U64(0):
                end = at + trailing_zeros(ends)
                ends &= ends - U64(1)
                values[j] = U32(load64(framed, end - 7) >> U64(64 - 8 * (end - last)))
                j += 1
                last = end
    new = values[filled:j]
    for i in range(new.size):
        pairs = U32(new[i] & U32(0x7F007F)) | U32(U32(new[i] & U32(0x7F007F00)) >> U32(1))
        new[i] = U32(U32(pairs & U32(0x3FFF)) | U32(U32(pairs & U32(0x3FFF0000)) >> U32(2)))
    return j, last
