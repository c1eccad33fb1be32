"""Kernels of offset-float (formats/spec/value/offset-float.md): range, parameters, codes, values.

All arithmetic is on binary32 bits as integers, except the choice of the mantissa and stochastic rounding
below eps. Values are processed 512 at a time, which is one block of packed codes. A row of 16 is one vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding.packing import pack_block, pack_rest, unpack_block, unpack_rest
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
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, resize, select, splat, store, widen
from wirecodec.kernels.cpu.simd.words import f32_from_bits, f32_to_bits
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
F32 = np.float32

UNIT, MIN_UNITS_PER_THREAD = 16_384, 16
"""Values per work unit, and the number of units that justifies another thread."""

MANTISSAS = 24
"""Number of mantissa lengths to choose from."""
SAMPLE = 512
"""Values in the sample that chooses the mantissa."""
MIN_STOCHASTIC_EPS = 0x0D800000
"""Bits of 2^-100, the smallest eps for stochastic rounding."""


@kernel
def find_range(bits: Array) -> tuple[int, int]:
    """Find the magnitude bits of the largest and the smallest value; a side without values has 0."""
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
    """Choose the mantissa, the base and the numbers of positive and negative codes.

    Args:
        bits: (r,) binary32 bits.
        n: bits per code.
        mantissa: bits of the mantissa, or -1 to choose them.
        eps: bits of eps, or 0 to choose it.
        up, down: magnitude bits of the largest and of the smallest value.
        up_given, down_given: True if the caller fixed that bound; it is then not exceeded.
        largest: bits of the largest finite number of the element type.
        stochastic: True for stochastic rounding.
    """
    if mantissa >= 0:
        base, positive, negative = _count_codes(
            mantissa, n, eps, up, down, up_given, down_given, largest, stochastic
        )
        return mantissa, base, positive, negative
    sample = np.zeros(SAMPLE, U32)
    r = bits.size
    if r <= SAMPLE:
        copy_elements(bits, 0, r, sample, 0)
    else:
        for q in range(SAMPLE):
            first, after = q * r // SAMPLE, (q + 1) * r // SAMPLE
            step = (U64(draw32(U32(0), U32(0), U32(q))) * U64(after - first)) >> U64(32)
            sample[q] = bits[first + np.int64(step)]
    best, least = 0, np.inf
    for m in range(MANTISSAS):
        base, positive, negative = _count_codes(
            m, n, eps, up, down, up_given, down_given, largest, stochastic
        )
        error = _estimate_error(sample, min((r + 15) & ~15, SAMPLE), m, base, positive, negative, stochastic)
        if error < least:
            best, least = m, error
    base, positive, negative = _count_codes(best, n, eps, up, down, up_given, down_given, largest, stochastic)
    return best, base, positive, negative


@inline
def _count_codes(
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
    """Compute the base and the numbers of codes for a mantissa of m bits; arguments as for ``choose``."""
    cut = np.int64(23 - m)
    rounding_margin = (np.int64(1) << cut) - 1 if stochastic else (np.int64(1) << cut) >> 1
    cap, codes = largest >> cut, (np.int64(1) << n) - 1
    top = min((up + (np.int64(0) if up_given else rounding_margin)) >> cut, cap)
    bottom = min((down + (np.int64(0) if down_given else rounding_margin)) >> cut, cap)
    both = 1 if up > 0 and down > 0 else 0
    base = max(np.int64(1), np.int64(MIN_STOCHASTIC_EPS) >> cut if stochastic else np.int64(0))
    if eps > 0:
        base = min(max(base, eps >> cut), cap)
    else:
        base = max(base, (top + bottom + 3 - codes) >> 1, max(top, bottom) + 1 + both - codes)
    positive = max(np.int64(1), top - base + 1) if up > 0 else np.int64(0)
    negative = max(np.int64(1), bottom - base + 1) if down > 0 else np.int64(0)
    if positive + negative > codes:  # only if eps is given
        limit = max(codes - min(positive, negative), codes >> 1)
        positive, negative = min(positive, limit), min(negative, limit)
    return base, positive, negative


@inline
def _estimate_error(
    sample: Array, size: int, m: int, base: int, positive: int, negative: int, stochastic: bool
) -> float:
    """Estimate Σ(x - w)² over the sample, in 16 partial sums."""
    sums = splat_float(0.0, to_float64(load(sample, 0, 16)))
    for i in range(0, size, 16):
        u = load(sample, i, 16)
        x = to_float64(u)
        if stochastic:
            low = _round_stochastically(u, splat(U32(0), 16), m, base, positive, negative)
            high = _round_stochastically(u, splat(U32(0xFFFF), 16), m, base, positive, negative)
            below = subtract_floats(x, to_float64(_values_of_codes(low, m, base, positive)))
            above = subtract_floats(to_float64(_values_of_codes(high, m, base, positive)), x)
            sums = add_floats(sums, multiply_floats(below, above) & 0x7FFFFFFFFFFFFFFF)
        else:
            code = _round_to_nearest(u, m, base, positive, negative)
            away = subtract_floats(x, to_float64(_values_of_codes(code, m, base, positive)))
            sums = add_floats(sums, multiply_floats(away, away))
    return sum_floats(sums)


@inline
def _round_to_nearest(u: Any, m: int, base: int, positive: int, negative: int) -> Any:
    """Round 16 values to the nearest code."""
    cut = 23 - m
    eps = base << cut
    half_eps = eps - 0x800000 if eps >= 0x1000000 else (eps + 1) >> 1
    a = u & 0x7FFFFFFF
    q = (a + ((np.int64(1) << cut) >> 1)) >> cut
    q = select(q > base, q, splat(U32(base), 16))
    return select(a < half_eps, splat(U32(0), 16), _limit_and_sign(u, q, base, positive, negative))


@inline
def _round_stochastically(u: Any, drawn: Any, m: int, base: int, positive: int, negative: int) -> Any:
    """Round 16 values up if fraction plus a 16-bit draw reaches one step, and down otherwise."""
    cut = 23 - m
    eps = base << cut
    a = u & 0x7FFFFFFF
    q = (a + ((drawn << max(cut - 16, 0)) >> max(16 - cut, 0))) >> cut
    rate = f32_to_bits(F32(65536) / f32_from_bits(U32(eps)))
    small = select(a < eps, a, splat(U32(0), 16))
    one = (float_to_int(multiply_floats(small, splat(rate, 16))) + drawn) >> 16
    q = select(a < eps, splat(U32(base), 16), q)
    code = _limit_and_sign(u, q, base, positive, negative)
    return select((a < eps) & (one == 0), splat(U32(0), 16), code)


@inline
def _limit_and_sign(u: Any, q: Any, base: int, positive: int, negative: int) -> Any:
    """Limit truncated magnitudes of at least ``base`` to the available codes, and add the sign.

    Codes of negative values follow those of positive ones.
    """
    minus = u >= 0x80000000
    most = select(minus, splat(U32(base - 1 + negative), 16), splat(U32(base - 1 + positive), 16))
    q = select(q < most, q, most)
    below = base - 1 - positive if negative else base - 1  # without codes, q is base - 1
    return q - select(minus, splat(U32(below), 16), splat(U32(base - 1), 16))


@inline
def _values_of_codes(codes: Any, m: int, base: int, positive: int) -> Any:
    """Convert valid codes to binary32 bits."""
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
    """Quantise and pack values.

    Args:
        bits: (r,) binary32 bits.
        n: bits per code.
        m, base, positive, negative: results of ``choose``.
        stochastic: True for stochastic rounding.
        low, high: the halves of the chunk's random stream.
        words: u32, written: the packed codes.
        turns: counters of ``next_unit``; a unit is UNIT values.
    """
    r = bits.size
    codes, rest = np.empty(PACK_BLOCK, U16), np.zeros(PACK_BLOCK, U32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        for start in range(unit * UNIT, min((unit + 1) * UNIT, r), PACK_BLOCK):
            stop = min(start + PACK_BLOCK, r)
            block, at = bits, start
            if stop < start + PACK_BLOCK:
                copy_elements(bits, start, stop - start, rest, 0)
                block, at = rest, 0
            if stochastic:
                first = U32((start // PACK_BLOCK) << 8)
                for i in range(0, PACK_BLOCK, 2 * PACK_LANES):
                    drawn = draw32x16(low, high, U32(first + U32(i >> 1)))
                    even = _round_stochastically(
                        load(block, at + i, 16), drawn >> 16, m, base, positive, negative
                    )
                    odd = _round_stochastically(
                        load(block, at + i + 16, 16), drawn & 0xFFFF, m, base, positive, negative
                    )
                    store(codes, i, resize(even, 16))
                    store(codes, i + 16, resize(odd, 16))
            else:
                for i in range(0, PACK_BLOCK, PACK_LANES):
                    found = _round_to_nearest(load(block, at + i, 16), m, base, positive, negative)
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
    """Unpack codes and convert them to values.

    Args:
        words: u32, the packed codes.
        n: bits per code.
        m, base, positive, negative: validated parameters.
        out: (r,) binary32 bits, written.
        bad: (1,) bool, set if a code is above positive + negative.
        turns: counters of ``next_unit``; a unit is UNIT values.
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
                store(block, at + i, _values_of_codes(widen(load(codes, i, 16)), m, base, positive))
                store(block, at + i + 16, _values_of_codes(widen(load(codes, i + 16, 16)), m, base, positive))
            if stop < start + PACK_BLOCK:
                copy_elements(rest, 0, stop - start, out, start)
        if reduce_max(most) > positive + negative:
            bad[0] = True
        unit = next_unit(turns, unit)
