"""Sixteen lanes of error-bounded at once (formats/spec/value/error-bounded.md), of a block that has 32.

Each word does to lanes ``half`` … ``half`` + 15 what ``bounded_coder`` does to any number of lanes, one by
one. ``known`` is that of ``bounded_coder``; its rows are 32 long here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline
from wirecodec.kernels.cpu.taken import gathered, heights
from wirecodec.kernels.cpu.vector import load, select, splat, store
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = [
    "bits16",
    "chances16",
    "contexts16",
    "learn16",
    "raw16",
    "sign16",
    "signs16",
    "symbol16",
    "symbols16",
]

U32 = np.uint32
ESCAPE = BOUNDED_ESCAPE
FAST, SLOW, FIRST, SECOND, ALIKE, LAST = 0, 32, 64, 96, 128, 160


@inline
def _least(a: Any, most: np.uint32) -> Any:
    return select(a < most, a, splat(most, 16))


@inline
def contexts16(known: Array, half: int) -> tuple[Any, Any]:
    """Rows, and shifts."""
    w = ((load(known, FAST + half, 16) + load(known, SLOW + half, 16)) >> 1) + 4
    octave = heights(w)
    row = ((_least(octave, U32(14)) - 2) << 1) + ((w >> (octave - 1)) & 1)
    return row, octave - _least(octave, U32(13))


@inline
def chances16(known: Array, half: int) -> Any:
    """Of 4096, how often signs are to be the last ones."""
    q = select(
        load(known, ALIKE + half, 16) != 0, load(known, SECOND + half, 16), load(known, FIRST + half, 16)
    )
    q = _least(q >> 4, U32(4064))
    return select(q < 32, splat(U32(32), 16), q)


@inline
def learn16(known: Array, half: int, code: Any, unsigned: np.uint32) -> None:
    """Take codes in; those below ``unsigned`` have no sign."""
    k = _least(code >> 1, U32((1 << 20) - 1))
    fast, slow = load(known, FAST + half, 16), load(known, SLOW + half, 16)
    store(known, FAST + half, fast - ((fast + 7) >> 3) + (k << 7))
    store(known, SLOW + half, slow - ((slow + 31) >> 5) + (k << 5))
    first, second = load(known, FIRST + half, 16), load(known, SECOND + half, 16)
    held, last = load(known, ALIKE + half, 16), load(known, LAST + half, 16)
    alike, coded = held != 0, code >= unsigned
    sign = code & 1
    same = sign == last
    q = select(alike, second, first)
    q = select(coded, select(same, q + ((65536 - q) >> 6), q - (q >> 6)), q)
    store(known, FIRST + half, select(alike, first, q))
    store(known, SECOND + half, select(alike, q, second))
    store(known, ALIKE + half, select(coded, (sign ^ last) ^ 1, held))
    store(known, LAST + half, select(coded, sign, last))


@inline
def signs16(known: Array, half: int, code: Any, unsigned: np.uint32) -> Any:
    """frequency · 4096 + start of the signs of codes."""
    c = chances16(known, half)
    op = select((code & 1) == load(known, LAST + half, 16), c << 12, ((4096 - c) << 12) + c)
    return select(code >= unsigned, op, splat(U32(4096 << 12), 16))


@inline
def symbols16(token: Any) -> Any:
    """The symbols of numbers, their unmodelled bits left out."""
    octave = heights(token | 1)
    octave = select(octave < 2, splat(U32(2), 16), octave)
    large = _least((octave << 2) + ((token >> (octave - 2)) & 3) + 12, U32(ESCAPE))
    return select(token < 32, token, large)


@inline
def bits16(symbol: Any, shift: Any) -> Any:
    """How many bits follow symbols."""
    some = select(symbol < 32, splat(U32(0), 16), (symbol >> 2) - 5)
    return select(symbol == ESCAPE, splat(U32(24), 16), some + shift)


@inline
def symbol16(x: Any, row: Any, found: Array) -> tuple[Any, Any]:
    """The states after a symbol is taken from each, and the symbols; ``found`` is (rows · 4096,)."""
    entry = gathered(found, (row << 12) | (x & 4095))
    return (((entry >> 12) & 4095) + 1) * (x >> 12) + (entry & 4095), entry >> 24


@inline
def raw16(x: Any, bits: Any) -> tuple[Any, Any]:
    """The states after 0 to 12 bits are taken from each, and the bits."""
    f = splat(U32(4096), 16) >> bits
    slot = x & 4095
    return f * (x >> 12) + (slot & (f - 1)), slot >> (12 - bits)


@inline
def sign16(known: Array, half: int, x: Any, k: Any, least: np.uint32) -> tuple[Any, Any]:
    """The states after a sign is taken from each whose k is at least ``least``, and the codes."""
    c = chances16(known, half)
    slot = x & 4095
    same = slot < c
    last = load(known, LAST + half, 16)
    after = select(same, c * (x >> 12) + slot, (4096 - c) * (x >> 12) + slot - c)
    coded = k >= least
    sign = select(coded, select(same, last, last ^ 1), splat(U32(0), 16))
    return select(coded, after, x), (k << 1) | sign
