"""What the curve fits share: the curve's unit, its parts by sign, heads of pieces, the raw form, rounding.

Sections of ``polyfit`` and ``dexpfit`` begin alike: a number of pieces, u32, and a u32 for each; without a
piece the values follow as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import BFLOAT16, Array, Bytes, bits_of
from wirecodec.errors import Invalid, Malformed
from wirecodec.value.raw import widen

__all__ = [
    "evaluate_curve",
    "find_worse_than_zeros",
    "max_finite",
    "piece_means",
    "piece_zeros",
    "read_heads",
    "read_raw",
    "scale_values",
    "split_by_sign",
    "write_raw",
    "write_section",
]

MAX_LENGTH_FIELD = 2**24 - 1
"""The bits of a head that hold a length, less 1."""


def scale_values(values: Array) -> tuple[Array, int]:
    """Sorted values over 2^n, whose squares binary64 holds; and n: 0, unless they are float64."""
    if values.dtype.itemsize == 2:
        return widen(values), 0
    if values.dtype == np.float32:
        return values, 0
    exponent = max(math.frexp(max(abs(float(values[0])), abs(float(values[-1]))))[1], -1000)
    return values * math.ldexp(1.0, -exponent), exponent


def split_by_sign(y: Array) -> Array:
    """The edges, from 0 to r, of the negative, the zero and the positive of sorted values."""
    zero = y.dtype.type(0)
    return np.unique([0, np.searchsorted(y, zero, "left"), np.searchsorted(y, zero, "right"), y.size])


def max_finite(dtype: np.dtype[Any]) -> float:
    """The greatest finite number of an element type."""
    return float(ml_dtypes.finfo(dtype).max)


def evaluate_curve(curve: Callable[[float, Array], None], r: int, dtype: np.dtype[Any]) -> Array:
    """The (r,) elements of a curve, rounded once.

    Args:
        curve: writes it into an array, its magnitudes cut to a number: curve(number, array).
        r: how many.
        dtype: the element type.
    """
    from wirecodec.kernels.cpu.coding import narrow

    out = np.empty(r, np.float32 if dtype == np.float32 else np.float64)
    curve(max_finite(dtype), out)
    if dtype.itemsize != 2:
        return out
    half = np.empty(r, np.uint16)
    (narrow.bfloat16_from_f64 if dtype == BFLOAT16 else narrow.half_from_f64)(bits_of(out), half)
    return half.view(dtype)


def find_worse_than_zeros(y: Array, exponent: int, decoded: Array, lengths: Array) -> Array:
    """Which pieces are farther from the values (over 2^exponent) than zeros would be."""
    from wirecodec.kernels.cpu.value import curve_fit as curve

    error, energy = np.empty(lengths.size), np.empty(lengths.size)
    curve.sum_squares(y, widen(decoded), math.ldexp(1.0, -exponent), lengths, error, energy)
    wrong: Array = ~(error <= energy * (1 - 2.0**-30))
    return wrong


def piece_means(y: Array, exponent: int, lengths: Array) -> Array:
    """The mean of each piece of values over 2^exponent, in their own unit."""
    sums = np.add.reduceat(y, np.cumsum(lengths) - lengths, dtype=np.float64)
    mean: Array = np.ldexp(sums / lengths, exponent)
    return mean


def piece_zeros(y: Array, exponent: int, lengths: Array) -> Array:
    """What is never worse than zeros."""
    return np.zeros(lengths.size)


def write_section(heads: Array, parameters: Array) -> Bytes:
    """The number of pieces, their heads, their parameters."""
    section = np.empty(4 + heads.nbytes + parameters.nbytes, np.uint8)
    section[:4] = np.array([heads.size], "<u4").view(np.uint8)
    section[4 : 4 + heads.nbytes] = heads.view(np.uint8)
    section[4 + heads.nbytes :] = parameters.reshape(-1).view(np.uint8)
    return section


def write_raw(values: Array) -> Bytes:
    """No piece; the values as they are."""
    return write_section(np.empty(0, "<u4"), values)


def read_raw(section: Bytes, r: int, dtype: np.dtype[Any], name: str) -> Array:
    """The values of a section without pieces."""
    if section.size != 4 + r * dtype.itemsize:
        raise Malformed(f"{name}-length", f"{section.size} bytes for {r} values")
    values: Array = section[4:].copy().view(dtype)
    with np.errstate(invalid="ignore"):  # a bfloat16 that signals is reported as an invalid operation
        finite = np.isfinite(values).all()
    if not finite:
        raise Invalid(f"{name}-value", "a value is NaN or infinite")
    return values


def read_heads(section: Bytes, r: int, name: str) -> Array:
    """The heads (u32) of a section's pieces, of which there may be none."""
    if section.size < 4:
        raise Malformed(f"{name}-length", f"{section.size} bytes; the number of pieces takes 4")
    n = int(section[:4].copy().view("<u4")[0])
    if n > r or section.size < 4 + 4 * n:
        raise Malformed(f"{name}-length", f"{section.size} bytes of {n} pieces and {r} values")
    heads: Array = section[4 : 4 + 4 * n].copy().view("<u4")
    return heads
