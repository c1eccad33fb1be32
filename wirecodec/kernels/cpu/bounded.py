"""The numbers of error-bounded (formats/spec/value/error-bounded.md): errors to expect, cells, and back.

Sums are taken in binary64, in 64 partial sums; all else is binary32, with one rounding an operation.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.floats import sum_floats
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.vector import load

__all__ = ["difference", "expect", "extremes", "missed", "quantise", "restore", "squares"]

U32 = np.uint32
F32 = np.float32
F64 = np.float64


@kernel
def extremes(bits: Array) -> tuple[int, int]:
    """The least and the greatest magnitude among binary32 numbers, all as bits."""
    least, most = U32(0x7FFFFFFF), U32(0)
    for i in range(bits.size):
        a = U32(bits[i] & U32(0x7FFFFFFF))
        least, most = min(least, a), max(most, a)
    return least, most


@kernel
def squares(values: Array) -> float:
    """Σ v²."""
    sums = np.zeros(64, F64)
    whole = values.size & ~63
    for start in range(0, whole, 64):
        block = values[start : start + 64]
        for j in range(64):
            sums[j] += F64(block[j]) * F64(block[j])
    for i in range(whole, values.size):
        sums[i & 63] += F64(values[i]) * F64(values[i])
    return sum_floats(load(sums, 0, 64))


@kernel
def difference(values: Array, others: Array) -> float:
    """Σ (v - w)²."""
    sums = np.zeros(64, F64)
    whole = values.size & ~63
    for start in range(0, whole, 64):
        block, other = values[start : start + 64], others[start : start + 64]
        for j in range(64):
            d = F64(block[j]) - F64(other[j])
            sums[j] += d * d
    for i in range(whole, values.size):
        d = F64(values[i]) - F64(others[i])
        sums[i & 63] += d * d
    return sum_floats(load(sums, 0, 64))


@kernel
def expect(x: Array, first: np.float32, inverse: np.float32) -> tuple[float, float, float, int]:
    """Where values lie in their cells.

    Args:
        x: (m,) float32.
        first: where the first cell begins.
        inverse: 1 / the step.

    Returns the sum of the fractions of a step, of their squares, of the squares of the values below the
    first cell, and how many of those there are.
    """
    fractions, seconds, lows = np.zeros(64, F64), np.zeros(64, F64), np.zeros(64, F64)
    below = 0
    whole = x.size & ~63
    for start in range(0, whole, 64):
        block = x[start : start + 64]
        few = np.int32(0)
        for j in range(64):
            a = abs(block[j])
            u = (a - first) * inverse
            low = a < first
            fraction = F32(0) if low else u - F32(np.int32(u))
            fractions[j] += F64(fraction)
            seconds[j] += F64(fraction) * F64(fraction)
            small = F64(a) if low else F64(0)
            lows[j] += small * small
            few += np.int32(low)
        below += few
    for i in range(whole, x.size):
        a = abs(x[i])
        u = (a - first) * inverse
        if a < first:
            lows[i & 63] += F64(a) * F64(a)
            below += 1
        else:
            fraction = u - F32(np.int32(u))
            fractions[i & 63] += F64(fraction)
            seconds[i & 63] += F64(fraction) * F64(fraction)
    return (
        sum_floats(load(fractions, 0, 64)),
        sum_floats(load(seconds, 0, 64)),
        sum_floats(load(lows, 0, 64)),
        below,
    )


@kernel
def quantise(x: Array, bits: Array, zero: int, first: np.float32, inverse: np.float32, codes: Array) -> int:
    """2k + sign of binary32 numbers; the sum of the k, each taken as 2^20 - 1 at most.

    Args:
        x: (m,) float32.
        bits: theirs.
        zero: 1 where k = 0 is for what lies below the first cell.
        first, inverse: as of ``expect``.
        codes: (m,) u32, written.
    """
    total = np.int64(0)
    for i in range(x.size):
        a = abs(x[i])
        k = np.int32((a - first) * inverse) + np.int32(zero)
        k = np.int32(0) if a < first else k
        sign = U32(bits[i] >> U32(31))
        codes[i] = U32(U32(U32(k) << U32(1)) | (U32(0) if zero and k == 0 else sign))
        total += min(np.int64(k), np.int64((1 << 20) - 1))
    return total


@inline
def _number(
    code: np.uint32, zero: int, first: np.float32, step: np.float32, place: np.float32, most: np.float32
) -> np.float32:
    k = np.int32(code >> U32(1))
    a = min(F32(first + F32(F32(F32(k - np.int32(zero)) + place) * step)), most)
    a = -a if code & U32(1) else a
    return F32(0) if zero and k == 0 else a


@kernel
def missed(
    values: Array,
    codes: Array,
    zero: int,
    first: np.float32,
    step: np.float32,
    place: np.float32,
    most: np.float32,
) -> float:
    """``difference`` of float32 or float64 values and what ``restore`` makes of their codes."""
    sums = np.zeros(64, F64)
    whole = values.size & ~63
    for start in range(0, whole, 64):
        block, code = values[start : start + 64], codes[start : start + 64]
        for j in range(64):
            d = F64(block[j]) - F64(_number(code[j], zero, first, step, place, most))
            sums[j] += d * d
    for i in range(whole, values.size):
        d = F64(values[i]) - F64(_number(codes[i], zero, first, step, place, most))
        sums[i & 63] += d * d
    return sum_floats(load(sums, 0, 64))


@kernel
def restore(
    codes: Array,
    zero: int,
    first: np.float32,
    step: np.float32,
    place: np.float32,
    most: np.float32,
    out: Array,
) -> None:
    """The binary32 numbers of codes.

    Args:
        codes: (m,) u32, 2k + sign.
        zero: as of ``quantise``.
        first: where the first cell begins.
        step: a cell's width.
        place: where in its cell a value is put, as a share of the step.
        most: no magnitude is greater.
        out: (m,) float32, written; it may lie where the codes do.
    """
    for i in range(codes.size):
        out[i] = _number(codes[i], zero, first, step, place, most)
