"""Per-lane steps of the error-bounded coder (formats/spec/value/error-bounded.md), for all lanes at once.

Each function takes vectors with one element per lane. A lane's model is six vectors: two running means, two
probabilities that the sign repeats, a flag if the last two signs were equal, and the last sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.gather import divide_approximately, expand_load, floor_log2, gather
from wirecodec.kernels.cpu.simd.vector import mask_to_bits, resize, select
from wirecodec.kernels.cpu.simd.words import popcount
from wirecodec.kernels.layout import BOUNDED_ESCAPE

U32 = np.uint32
ESCAPE, DIRECT_SYMBOLS = BOUNDED_ESCAPE, 32
"""Symbol of an escape, and number of symbols without raw bits."""
MAX_LANES, SMALL_VECTOR = 32, 4
"""Lanes of a vector for blocks of 32 lanes, and for smaller blocks."""
ROW_STRIDE = 64
"""Elements per row of the frequency table; the last ones are unused."""
PRECISION = 12
"""Bits of a frequency, which also limit the raw bits of one rANS step."""


@inline_without_refcounts
def find_run_starts(m: int, lanes: int, places: Array) -> None:
    """Compute the position at which each lane's run of values begins."""
    steps, more = m // lanes, m % lanes
    for n in range(lanes):
        places[n] = n * steps + min(n, more)


@inline
def limit(a: Any, maximum: int) -> Any:
    """Compute the minimum of each lane and a number."""
    return select(a < maximum, a, (a & 0) | maximum)


@inline
def start_model(like: Any, start: int) -> Any:
    """Create the models of a block's lanes from its start, the number of a half octave."""
    mean = (like & 0) | ((U32(2 + (start & 1)) << U32((start >> 1) + 1)) - U32(4))
    chance = (like & 0) | 32768
    return mean, mean, chance, chance, like & 0, like & 0


@inline
def find_contexts(model: Any) -> Any:
    """Compute each lane's row and shift."""
    w = ((model[0] + model[1]) >> 1) + 4
    octave = floor_log2(w)
    row = ((limit(octave, 14) - 2) << 1) + ((w >> (octave - 1)) & 1)
    return row, octave - limit(octave, 13)


@inline
def find_sign_frequencies(model: Any) -> Any:
    """Compute the frequency, out of 4096, at which each lane's sign repeats."""
    q = limit(select(model[4] != 0, model[3], model[2]) >> 4, 4064)
    return select(q < 32, (q & 0) | 32, q)


@inline
def update_model(model: Any, code: Any, unsigned: np.uint32) -> Any:
    """Update the models with the codes; codes below ``unsigned`` have no sign."""
    fast, slow, first, second, repeated, last = model
    k = limit(code >> 1, (1 << 20) - 1)
    fast = fast - ((fast + 7) >> 3) + (k << 7)
    slow = slow - ((slow + 31) >> 5) + (k << 5)
    alike, signed = repeated != 0, code >= unsigned
    sign = code & 1
    q = select(alike, second, first)
    q = select(signed, select(sign == last, q + ((65536 - q) >> 6), q - (q >> 6)), q)
    repeated = select(signed, (sign ^ last) ^ 1, repeated)
    return fast, slow, select(alike, first, q), select(alike, q, second), repeated, select(signed, sign, last)


@inline
def find_symbols(token: Any) -> Any:
    """Map numbers to symbols, without their raw bits."""
    octave = floor_log2(token | 4)
    large = limit((octave << 2) + ((token >> (octave - 2)) & 3) + 12, ESCAPE)
    return select(token < DIRECT_SYMBOLS, token, large)


@inline
def count_raw_bits(symbol: Any, shift: Any) -> Any:
    """Compute the number of raw bits after each symbol."""
    some = select(symbol < DIRECT_SYMBOLS, symbol & 0, (symbol >> 2) - 5)
    return select(symbol == ESCAPE, (symbol & 0) | 24, some + shift)


@inline
def find_bases(symbol: Any, shift: Any) -> Any:
    """Compute the smallest number of each symbol."""
    wide = ((symbol & 3) + 4) << ((symbol >> 2) - 5)
    return select(symbol == ESCAPE, symbol & 0, select(symbol < DIRECT_SYMBOLS, symbol, wide) << shift)


@inline
def push_symbol(x: Any, f: Any, start: Any, active: Any, words: Array, p: int) -> Any:
    """Encode one symbol per active lane (rANS).

    Args:
        x: states.
        f, start: frequency and cumulative frequency of the symbol.
        active: mask of the lanes that encode.
        words: u16, written.
        p: next position in ``words``.

    Returns:
        The new states and the next position.
    """
    need = ((x >> 20) >= f) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    q = divide_approximately(x, f)
    rest, gap = x - q * f, 4096 - f
    y = (q << 12) + rest + start
    y = select(rest < f, y, select(rest >= 1 << 31, y - gap, y + gap))
    return select(active, y, x), p


@inline
def push_raw_bits(x: Any, bits: Any, number: Any, active: Any, words: Array, p: int) -> Any:
    """Encode 0 to 12 equiprobable bits per active lane, as ``push_symbol`` does; divisions become shifts."""
    left = 12 - bits
    need = ((x >> 20) >> left != 0) & active
    p += compress_store(words, p, resize(x, 16), mask_to_bits(need))
    x = select(need, x >> 16, x)
    y = ((x >> left) << 12) + (x - ((x >> left) << left)) + (number << left)
    return select(active, y, x), p


@inline
def refill(x: Any, words: Array, p: int, active: Any) -> Any:
    """Read a word into each active state below 2^16, last lane first; return states and words left."""
    low = (x < 65536) & active
    need = mask_to_bits(low)
    p -= popcount(need)
    return select(low, (x << 16) | expand_load(words, p, need, x, 32), x), p


@inline
def pop_symbol(x: Any, row: Any, slots: Array) -> Any:
    """Decode one symbol per lane from the slots, (rows · 4096,); return the new states and the symbols."""
    entry = gather(slots, (row << 12) | (x & 4095))
    return (((entry >> 12) & 4095) + 1) * (x >> 12) + (entry & 4095), entry >> 24


@inline
def pop_raw_bits(x: Any, bits: Any) -> Any:
    """Decode 0 to 12 raw bits per lane; return the new states and the bits."""
    f = ((x & 0) | 4096) >> bits
    slot = x & 4095
    return f * (x >> 12) + (slot & (f - 1)), slot >> (PRECISION - bits)


@inline
def pop_sign(model: Any, x: Any, k: Any, lowest: np.uint32) -> Any:
    """Decode a sign for each lane whose k is at least ``lowest``; return the new states and the codes."""
    c = find_sign_frequencies(model)
    slot = x & 4095
    same = slot < c
    f = select(same, c, 4096 - c)
    after = f * (x >> 12) + select(same, slot, slot - c)
    signed = k >= lowest
    sign = select(signed, select(same, model[5], model[5] ^ 1), x & 0)
    return select(signed, after, x), (k << 1) | sign
