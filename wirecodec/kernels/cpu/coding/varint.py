"""Numbers below 2^28 as LEB128 varints: 7 bits a byte, low bits first, bit 7 set on all bytes but the last.

Used by the codecs ``delta`` and ``rle``. A reader calls ``survey`` on a copy of the section that no one else
can change, with ``FRONT`` bytes of 0 before it and ``BACK`` of 0x80 after it; ``read`` trusts what it found.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import load64, popcount, store64, trailing_zeros

__all__ = ["BACK", "FRONT", "GROUP", "read", "size", "survey", "write"]

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64

GROUP = 64
"""Bytes that ``read`` takes at once."""
FRONT, BACK = 8, GROUP + 8

_HIGH = U64(0x8080808080808080)
_BLOCK = 64


@inline
def size(values: Array) -> np.int64:
    """Bytes of all the u32 ``values``."""
    total = np.int64(0)
    for start in range(0, values.size, 4096):
        block = values[start : start + 4096]
        longer = U32(0)
        for i in range(block.size):
            # One comparison a line: sums of comparisons would be widened to 64 bits.
            longer = U32(longer + U32(block[i] >= U32(1 << 7)))
            longer = U32(longer + U32(block[i] >= U32(1 << 14)))
            longer = U32(longer + U32(block[i] >= U32(1 << 21)))
        total += block.size + np.int64(longer)
    return total


@inline
def write(values: Array, section: Array, at: np.int64) -> np.int64:
    """The u32 ``values`` from a byte of the u8 ``section`` on; where they end.

    The section has 7 bytes more than they need.
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
    """How many numbers end in ``length`` bytes, and whether one is over-long or takes more than 4 bytes."""
    ends = 0
    wrong = U64(0)
    stop = FRONT + length
    for at in range(FRONT, stop, 8):
        left = stop - at
        high = _HIGH if left >= 8 else _HIGH & ((U64(1) << U64(8 * left)) - U64(1))
        word = load64(framed, at)
        before = load64(framed, at - 1)
        ends += popcount(~word & high)
        zero = ~(((word & ~_HIGH) + ~_HIGH) | word)
        wrong |= (zero | (word & load64(framed, at - 2) & load64(framed, at - 3))) & before & high
    return ends, wrong != U64(0)


@inline
def read(
    framed: Array, start: np.int64, stop: np.int64, values: Array, j: np.int64, last: np.int64
) -> tuple[int, int]:
    """The numbers that end in some whole groups of bytes.

    Args:
        framed: u8, surveyed.
        start: the first group's first byte.
        stop: a byte of the last group, or the one after it.
        values: u32, with room for the numbers.
        j: where the first goes.
        last: where the number before it ended.

    Returns where the next number goes, and where the last one ended.
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
