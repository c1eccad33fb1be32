"""Common parts of the curve-fitting codecs: scaling, splitting by sign, heads of pieces, raw form, rounding.

Sections of ``polyfit`` and ``dexpfit`` begin with the number of pieces, u32, and one u32 head per piece. If
there are no pieces, the values follow unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import Invalid, Malformed
from wirecodec.value.raw import widen

MAX_LENGTH_FIELD = 2**24 - 1
"""Mask of the head bits that hold a piece's length minus 1."""


def scale_values(values: Array) -> tuple[Array, int]:
    """Scale sorted values so that binary64 holds their squares.

    Returns:
        The values divided by 2^n as float32 or float64, and n, which is 0 unless they are float64.
    """
    if values.dtype.itemsize == 2:
        return widen(values), 0
    if values.dtype == np.float32:
        return values, 0
    exponent = max(math.frexp(max(abs(float(values[0])), abs(float(values[-1]))))[1], -1000)
    return values * math.ldexp(1.0, -exponent), exponent


def split_by_sign(y: Array) -> Array:
    """Find the boundaries, from 0 to r, of the negative, zero and positive parts of sorted values."""
    zero = y.dtype.type(0)
    return np.unique([0, np.searchsorted(y, zero, "left"), np.searchsorted(y, zero, "right"), y.size])


@cache
def max_finite(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of an element type."""
    return float(ml_dtypes.finfo(dtype).max)


def evaluate_curve(curve: Callable[[float, Array], None], r: int, dtype: np.dtype[Any]) -> Array:
    """Evaluate a curve in an element type, with one rounding.

    Args:
        curve: called as curve(largest, array); writes its points, clamped to ``largest``, into the array.
        r: number of points.
        dtype: the element type.

    Returns:
        (r,) array of type ``dtype``.
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
    """Find the pieces whose error exceeds that of zeros.

    Args:
        y: (r,) values divided by 2^exponent.
        exponent: n of ``scale_values``.
        decoded: (r,) decoded values.
        lengths: (n,) points per piece.

    Returns:
        (n,) bool.
    """
    from wirecodec.kernels.cpu.value import curve_fit as curve

    error, energy = np.empty(lengths.size), np.empty(lengths.size)
    curve.sum_squares(y, widen(decoded), math.ldexp(1.0, -exponent), lengths, error, energy)
    wrong: Array = ~(error <= energy * (1 - 2.0**-30))
    return wrong


def average_pieces(y: Array, exponent: int, lengths: Array) -> Array:
    """Compute the mean of each piece, rescaled by 2^exponent."""
    sums = np.add.reduceat(y, np.cumsum(lengths) - lengths, dtype=np.float64)
    mean: Array = np.ldexp(sums / lengths, exponent)
    return mean


def zero_pieces(y: Array, exponent: int, lengths: Array) -> Array:
    """Return one zero per piece, the constant that is never worse than zeros."""
    return np.zeros(lengths.size)


def write_section(heads: Array, parameters: Array) -> Bytes:
    """Join the number of pieces, their heads and their parameters."""
    section = np.empty(4 + heads.nbytes + parameters.nbytes, np.uint8)
    section[:4] = np.array([heads.size], "<u4").view(np.uint8)
    section[4 : 4 + heads.nbytes] = heads.view(np.uint8)
    section[4 + heads.nbytes :] = parameters.reshape(-1).view(np.uint8)
    return section


def write_raw(values: Array) -> Bytes:
    """Write a section without pieces, which holds the values unchanged."""
    return write_section(np.empty(0, "<u4"), values)


def read_raw(section: Bytes, r: int, dtype: np.dtype[Any], name: str) -> Array:
    """Read the values of a section without pieces.

    Raises:
        Malformed: if the length is wrong.
        Invalid: if a value is NaN or infinite.
    """
    if section.size != 4 + r * dtype.itemsize:
        raise Malformed(f"{name}-length", f"{section.size} bytes for {r} values")
    values: Array = section[4:].copy().view(dtype)
    with np.errstate(invalid="ignore"):  # a signalling bfloat16 NaN raises this warning
        finite = np.isfinite(values).all()
    if not finite:
        raise Invalid(f"{name}-value", "a value is NaN or infinite")
    return values


def read_heads(section: Bytes, r: int, name: str) -> Array:
    """Read the heads (u32) of a section's pieces; raise Malformed if the section is too short."""
    if section.size < 4:
        raise Malformed(f"{name}-length", f"{section.size} bytes; the number of pieces needs 4")
    n = int(section[:4].copy().view("<u4")[0])
    if n > r or section.size < 4 + 4 * n:
        raise Malformed(f"{name}-length", f"{section.size} bytes for {n} pieces and {r} values")
    heads: Array = section[4 : 4 + 4 * n].copy().view("<u4")
    return heads
