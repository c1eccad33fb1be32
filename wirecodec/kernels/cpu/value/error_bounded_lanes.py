"""What the lanes of an error-bounded block know and do (formats/spec/value/error-bounded.md), all at once.

Each word takes vectors of as many lanes as its caller has. What lanes know is six vectors: two means, two
chances of signs, whether the last two signs were alike, the last sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, inline_without_refcounts
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.gather import divide_approximately, expand_load, floor_log2, gather
from wirecodec.kernels.cpu.simd.vector import mask_to_bits, resize, select
from wirecodec.kernels.cpu.simd.words import popcount
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = [
    "DIRECT",
    "FEW",
    "HALF",
    "MANY",
    "WIDTH",
    "base_of",
    "begun",
    "bits_after",
    "chances",
    "contexts",
    "learned",
    "least",
    "places_of",
    "pushed",
    "raw_pushed",
    "raw_taken",
    "refilled",
    "sign_taken",
    "symbol_taken",
    "symbols",
]

U32 = np.uint32
ESCAPE, DIRECT = BOUNDED_ESCAPE, 32
MANY, FEW = 32, 4
"""Lanes of a vector, where a block has 32 lanes and where not."""
WIDTH = 64
"""Elements of a row of the table of frequencies, some of them unused."""
HALF = 12
"""Bits that one phase takes, at most, of those that are not modelled."""


@inline_without_refcounts
def places_of(m: int, lanes: int, places: Array) -> None:
    """Where each lane's run begins."""
    steps, more = m // lanes, m % lanes
    for n in range(lanes):
        places[n] = n * steps + min(n, more)


@inline
def least(a: Any, most: int) -> Any:
    """The lesser of each lane and a number."""
    return select(a < most, a, (a & 0) | most)


@inline
def begun(like: Any, start: int) -> Any:
    """What lanes know that have seen nothing but a mean, as the number of its half octave."""
    mean = (like & 0) | ((U32(2 + (start & 1)) << U32((start >> 1) + 1)) - U32(4))
    chance = (like & 0) | 32768
    return mean, mean, chance, chance, like & 0, like & 0


@inline
def contexts(known: Any) -> Any:
    """Rows, and shifts."""
    w = ((known[0] + known[1]) >> 1) + 4
    octave = floor_log2(w)
    row = ((least(octave, 14) - 2) << 1) + ((w >> (octave - 1)) & 1)
    return row, octave - least(octave, 13)


@inline
def chances(known: Any) -> Any:
    """Of 4096, how often signs are to be the last ones."""
    q = least(select(known[4] != 0, known[3], known[2]) >> 4, 4064)
    return select(q < 32, (q & 0) | 32, q)


@inline
def learned(known: Any, code: Any, unsigned: np.uint32) -> Any:
    """What lanes know after these codes, of which those below ``unsigned`` have no sign."""
    fast, slow, first, second, held, last = known
    k = least(code >> 1, (1 << 20) - 1)
    fast = fast - ((fast + 7) >> 3) + (k << 7)
    slow = slow - ((slow + 31) >> 5) + (k << 5)
    alike, coded = held != 0, code >= unsigned
    sign = code & 1
    q = select(alike, second, first)
    q = select(coded, select(sign == last, q + ((65536 - q) >> 6), q - (q >> 6)), q)
    held = select(coded, (sign ^ last) ^ 1, held)
    return fast, slow, select(alike, first, q), select(alike, q, second), held, select(coded, sign, last)


@inline
def symbols(token: Any) -> Any:
    """The symbols of numbers, their unmodelled bits left out."""
    octave = floor_log2(token | 4)
    large = least((octave << 2) + ((token >> (octave - 2)) & 3) + 12, ESCAPE)
    return select(token < DIRECT, token, large)


@inline
def bits_after(symbol: Any, shift: Any) -> Any:
    """How many bits follow symbols."""
    some = select(symbol < DIRECT, symbol & 0, (symbol >> 2) - 5)
    return select(symbol == ESCAPE, (symbol & 0) | 24, some + shift)


@inline
def base_of(symbol: Any, shift: Any) -> Any:
    """The least number of each symbol."""
    wide = ((symbol & 3) + 4) << ((symbol >> 2) - 5)
    return select(symbol == ESCAPE, symbol & 0, select(symbol < DIRECT, symbol, wide) << shift)


@inline
def pushed(x: Any, f: Any, start: Any, active: Any, words: Array, p: int) -> Any:
    """The states after a frequency and a start are coded into those that are active, and where words end."""
    need = ((x >> 20) >= f) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    q = divide_approximately(x, f)
    rest, gap = x - q * f, 4096 - f
    y = (q << 12) + rest + start
    y = select(rest < f, y, select(rest >= 1 << 31, y - gap, y + gap))
    return select(active, y, x), p


@inline
def raw_pushed(x: Any, bits: Any, number: Any, active: Any, words: Array, p: int) -> Any:
    """As ``pushed``, for 0 to 12 bits that are as likely as not: quotients are shifts."""
    left = 12 - bits
    need = ((x >> 20) >> left != 0) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    y = ((x >> left) << 12) + (x - ((x >> left) << left)) + (number << left)
    return select(active, y, x), p


@inline
def refilled(x: Any, words: Array, p: int, active: Any) -> Any:
    """A word for each active state below 2^16, the last lane's first; where the words end that are left."""
    low = (x < 65536) & active
    need = mask_to_bits(low)
    p -= popcount(need)
    return select(low, (x << 16) | expand_load(words, p, need, x, 32), x), p


@inline
def symbol_taken(x: Any, row: Any, found: Array) -> Any:
    """The states after a symbol is taken from each, and the symbols; ``found`` is (rows · 4096,)."""
    entry = gather(found, (row << 12) | (x & 4095))
    return (((entry >> 12) & 4095) + 1) * (x >> 12) + (entry & 4095), entry >> 24


@inline
def raw_taken(x: Any, bits: Any) -> Any:
    """The states after 0 to 12 bits are taken from each, and the bits."""
    f = ((x & 0) | 4096) >> bits
    slot = x & 4095
    return f * (x >> 12) + (slot & (f - 1)), slot >> (HALF - bits)


@inline
def sign_taken(known: Any, x: Any, k: Any, lowest: np.uint32) -> Any:
    """The states after a sign is taken from each whose k is at least ``lowest``, and the codes."""
    c = chances(known)
    slot = x & 4095
    same = slot < c
    f = select(same, c, 4096 - c)
    after = f * (x >> 12) + select(same, slot, slot - c)
    coded = k >= lowest
    sign = select(coded, select(same, known[5], known[5] ^ 1), x & 0)
    return select(coded, after, x), (k << 1) | sign
