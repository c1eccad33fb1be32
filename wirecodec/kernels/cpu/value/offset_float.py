"""The loops of the offset float (formats/spec/value/offset-float.md): range, parameters, codes, values.

Everything but the choice of the mantissa and stochastic rounding below eps is integer arithmetic on binary32
bits. Values go through 512 at a time, one block of packed codes, a row of 16 as one vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding.packing import pack_block, pack_rest, unpack_block, unpack_rest
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.prng import draw32, draw32x16
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    float_to_int,
    multiply_floats,
    splat_float,
    subtract_floats,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, resize, select, splat, store, widen
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

__all__ = ["LEAST_UNITS", "UNIT", "choose", "dequantise", "quantise", "reach"]

U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
F32 = np.float32

UNIT, LEAST_UNITS = 16_384, 16
"""Values that a thread takes at a time; how many times that is worth a thread."""

MANTISSAS = 24
SAMPLE = 512
LEAST_EPS = 0x0D800000
"""The bits of 2^-100, below which stochastic rounding has no eps."""


@kernel
def reach(bits: Array) -> tuple[int, int]:
    """The magnitude bits of the greatest value and of the least; 0 for a side that has none."""
    down = up = splat(U32(0), 64)
    whole = bits.size & ~63
    for i in range(0, whole, 64):
        here = load(bits, i, 64)
        down = select(here > down, here, down)
        here = here ^ 0x80000000
        up = select(here > up, here, up)
    below, above = reduce_max(down), reduce_max(up)
    for i in range(whole, bits.size):
        below, above = max(below, U32(bits[i])), max(above, U32(bits[i] ^ U32(0x80000000)))
    sign, magnitude = U32(0x80000000), U32(0x7FFFFFFF)
    return np.int64(above & magnitude if above >= sign else U32(0)), np.int64(
        below & magnitude if below >= sign else U32(0)
    )


@kernel
def choose(
    bits: Array,
    n: int,
    mantissa: int,
    eps: int,
    up: int,
    down: int,
    up_given: bool,
    down_given: bool,
    largest: int,
    stochastic: bool,
) -> tuple[int, int, int, int]:
    """The mantissa, the base, and how many codes are positive and negative.

    Args:
        bits: (r,) binary32 bits.
        n: bits of a code.
        mantissa: bits of the mantissa; -1 to have them chosen.
        eps: its bits; 0 to have it chosen.
        up, down: the magnitude bits of the greatest and of the least value.
        up_given, down_given: whether they are the caller's, who would not have them exceeded.
        largest: the bits of the greatest number that the element type holds.
        stochastic: whether values are rounded at random.
    """
    if mantissa >= 0:
        base, positive, negative = _plan(
            mantissa, n, eps, up, down, up_given, down_given, largest, stochastic
        )
        return mantissa, base, positive, negative
    sample = np.zeros(SAMPLE, U32)
    r = bits.size
    if r <= SAMPLE:
        sample[:r] = bits
    else:
        for q in range(SAMPLE):
            first, after = q * r // SAMPLE, (q + 1) * r // SAMPLE
            step = (U64(draw32(U32(0), U32(0), U32(q))) * U64(after - first)) >> U64(32)
            sample[q] = bits[first + np.int64(step)]
    best, least = 0, np.inf
    for m in range(MANTISSAS):
        base, positive, negative = _plan(m, n, eps, up, down, up_given, down_given, largest, stochastic)
        error = _error(sample, min((r + 15) & ~15, SAMPLE), m, base, positive, negative, stochastic)
        if error < least:
            best, least = m, error
    base, positive, negative = _plan(best, n, eps, up, down, up_given, down_given, largest, stochastic)
    return best, base, positive, negative


@inline
def _plan(
    m: int,
    n: int,
    eps: int,
    up: int,
    down: int,
    up_given: bool,
    down_given: bool,
    largest: int,
    stochastic: bool,
) -> tuple[int, int, int]:
    """The base and the numbers of codes for a mantissa of m bits; see ``choose``."""
    cut = np.int64(23 - m)
    over = (np.int64(1) << cut) - 1 if stochastic else (np.int64(1) << cut) >> 1
    cap, codes = largest >> cut, (np.int64(1) << n) - 1
    top = min((up + (np.int64(0) if up_given else over)) >> cut, cap)
    bottom = min((down + (np.int64(0) if down_given else over)) >> cut, cap)
    both = 1 if up > 0 and down > 0 else 0
    base = max(np.int64(1), np.int64(LEAST_EPS) >> cut if stochastic else np.int64(0))
    if eps > 0:
        base = min(max(base, eps >> cut), cap)
    else:
        base = max(base, (top + bottom + 3 - codes) >> 1, max(top, bottom) + 1 + both - codes)
    positive = max(np.int64(1), top - base + 1) if up > 0 else np.int64(0)
    negative = max(np.int64(1), bottom - base + 1) if down > 0 else np.int64(0)
    if positive + negative > codes:  # only where eps is given
        room = max(codes - min(positive, negative), codes >> 1)
        positive, negative = min(positive, room), min(negative, room)
    return base, positive, negative


@inline
def _error(
    sample: Array, size: int, m: int, base: int, positive: int, negative: int, stochastic: bool
) -> float:
    """The expected Σ(x - w)² of the sample, in 16 partial sums."""
    sums = splat_float(0.0, to_float64(load(sample, 0, 16)))
    for i in range(0, size, 16):
        u = load(sample, i, 16)
        x = to_float64(u)
        if stochastic:
            low = _stochastic(u, splat(U32(0), 16), m, base, positive, negative)
            high = _stochastic(u, splat(U32(0xFFFF), 16), m, base, positive, negative)
            below = subtract_floats(x, to_float64(_values(low, m, base, positive)))
            above = subtract_floats(to_float64(_values(high, m, base, positive)), x)
            sums = add_floats(sums, multiply_floats(below, above) & 0x7FFFFFFFFFFFFFFF)
        else:
            code = _nearest(u, m, base, positive, negative)
            away = subtract_floats(x, to_float64(_values(code, m, base, positive)))
            sums = add_floats(sums, multiply_floats(away, away))
    return sum_floats(sums)


@inline
def _nearest(u: Any, m: int, base: int, positive: int, negative: int) -> Any:
    """The codes of values, rounded to nearest."""
    cut = 23 - m
    eps = base << cut
    half_eps = eps - 0x800000 if eps >= 0x1000000 else (eps + 1) >> 1
    a = u & 0x7FFFFFFF
    q = (a + ((np.int64(1) << cut) >> 1)) >> cut
    q = select(q > base, q, splat(U32(base), 16))
    return select(a < half_eps, splat(U32(0), 16), _signed(u, q, base, positive, negative))


@inline
def _stochastic(u: Any, drawn: Any, m: int, base: int, positive: int, negative: int) -> Any:
    """The codes of values, rounded up where the rest and a draw of 16 bits reach a step."""
    cut = 23 - m
    eps = base << cut
    a = u & 0x7FFFFFFF
    q = (a + ((drawn << max(cut - 16, 0)) >> max(16 - cut, 0))) >> cut
    rate = f32_to_bits(F32(65536) / f32_from_bits(U32(eps)))
    small = select(a < eps, a, splat(U32(0), 16))
    one = (float_to_int(multiply_floats(small, splat(rate, 16))) + drawn) >> 16
    q = select(a < eps, splat(U32(base), 16), q)
    code = _signed(u, q, base, positive, negative)
    return select((a < eps) & (one == 0), splat(U32(0), 16), code)


@inline
def _signed(u: Any, q: Any, base: int, positive: int, negative: int) -> Any:
    """The codes of magnitudes cut to m bits, at least ``base``: limited, negative ones above the positive."""
    minus = u >= 0x80000000
    most = select(minus, splat(U32(base - 1 + negative), 16), splat(U32(base - 1 + positive), 16))
    q = select(q < most, q, most)
    below = base - 1 - positive if negative else base - 1  # without codes, q is base - 1
    return q - select(minus, splat(U32(below), 16), splat(U32(base - 1), 16))


@inline
def _values(codes: Any, m: int, base: int, positive: int) -> Any:
    """The binary32 bits of codes, none above the number of codes."""
    cut = 23 - m
    plus = U32((base - 1) << cut)
    minus = U32(((base - 1 - positive) << cut) + 0x80000000)
    value = (codes << cut) + select(codes > positive, splat(minus, 16), splat(plus, 16))
    return select(codes == 0, codes, value)


@kernel
def quantise(
    bits: Array,
    n: int,
    m: int,
    base: int,
    positive: int,
    negative: int,
    stochastic: bool,
    low: np.uint32,
    high: np.uint32,
    words: Array,
    turns: Array,
) -> None:
    """Packed codes.

    Args:
        bits: (r,) binary32 bits.
        n: bits of a code.
        m, base, positive, negative: as ``choose`` gives them.
        stochastic: whether values are rounded at random.
        low, high: the halves of the chunk's stream.
        words: u32, written.
        turns: for ``next_unit``; a unit is UNIT values.
    """
    r = bits.size
    codes, rest = np.empty(PACK_BLOCK, U16), np.zeros(PACK_BLOCK, U32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        for start in range(unit * UNIT, min((unit + 1) * UNIT, r), PACK_BLOCK):
            stop = min(start + PACK_BLOCK, r)
            block, at = bits, start
            if stop < start + PACK_BLOCK:
                rest[: stop - start] = bits[start:stop]
                block, at = rest, 0
            if stochastic:
                first = U32((start // PACK_BLOCK) << 8)
                for i in range(0, PACK_BLOCK, 2 * PACK_LANES):
                    drawn = draw32x16(low, high, U32(first + U32(i >> 1)))
                    even = _stochastic(load(block, at + i, 16), drawn >> 16, m, base, positive, negative)
                    odd = _stochastic(
                        load(block, at + i + 16, 16), drawn & 0xFFFF, m, base, positive, negative
                    )
                    store(codes, i, resize(even, 16))
                    store(codes, i + 16, resize(odd, 16))
            else:
                for i in range(0, PACK_BLOCK, PACK_LANES):
                    found = _nearest(load(block, at + i, 16), m, base, positive, negative)
                    store(codes, i, resize(found, 16))
            w = (start // PACK_BLOCK) * PACK_LANES * n
            if stop == start + PACK_BLOCK:
                pack_block(codes, 0, n, words, w)
            else:
                pack_rest(codes, 0, stop - start, n, words, w)
        unit = next_unit(turns, unit)


@kernel
def dequantise(
    words: Array,
    n: int,
    m: int,
    base: int,
    positive: int,
    negative: int,
    out: Array,
    bad: Array,
    turns: Array,
) -> None:
    """The values of packed codes.

    Args:
        words: u32, as many as r codes take.
        n: bits of a code.
        m, base, positive, negative: the parameters, checked.
        out: (r,) binary32 bits, written.
        bad: (1,), set where a code is above the number of codes.
        turns: for ``next_unit``; a unit is UNIT values.
    """
    r = out.size
    codes, rest = np.empty(PACK_BLOCK, U16), np.empty(PACK_BLOCK, U32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        most = splat(U16(0), 32)
        for start in range(unit * UNIT, min((unit + 1) * UNIT, r), PACK_BLOCK):
            stop = min(start + PACK_BLOCK, r)
            w = (start // PACK_BLOCK) * PACK_LANES * n
            block, at = out, start
            if stop == start + PACK_BLOCK:
                unpack_block(words, w, n, codes, 0)
            else:
                codes[:] = 0
                unpack_rest(words, w, n, codes, 0, stop - start)
                block, at = rest, 0
            for i in range(0, PACK_BLOCK, 2 * PACK_LANES):
                here = load(codes, i, 32)
                most = select(here > most, here, most)
                store(block, at + i, _values(widen(load(codes, i, 16)), m, base, positive))
                store(block, at + i + 16, _values(widen(load(codes, i + 16, 16)), m, base, positive))
            if stop < start + PACK_BLOCK:
                out[start:stop] = rest[: stop - start]
        if reduce_max(most) > positive + negative:
            bad[0] = True
        unit = next_unit(turns, unit)
