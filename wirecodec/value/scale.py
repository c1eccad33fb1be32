"""Scales: one number for many values, with its wire type, range and rounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Invalid
from wirecodec.value.float32_convert import MAX_FLOAT32
from wirecodec.value.raw import round_to_16_bits

MAX_SCALE = MAX_FLOAT32 | {"float64": float(np.finfo(np.float64).max)}
"""Largest number that each element type holds, by type name."""


@cache
def max_scale(dtype: np.dtype[Any]) -> float:
    """Return the largest number that an element type holds.

    The result is cached because ``dtype.name`` takes microseconds.
    """
    return MAX_SCALE[dtype.name]


def scale_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the wire type of a scale: binary64 for float64 elements, binary32 for all others."""
    return np.dtype("<f8" if dtype == np.float64 else "<f4")


def round_scale(scale: Array, dtype: np.dtype[Any]) -> Array:
    """Round one number of ``scale_type`` to the element type, to nearest, ties to even."""
    if dtype.itemsize != 2:
        return scale.astype(dtype)
    return round_to_16_bits(bits_of(scale), dtype)[0].view(dtype)


def read_scale(part: Bytes, kind: Any, largest: float, code: str) -> Array:
    """Read a scale, which must be 0 to ``largest`` and not -0.

    Args:
        part: the scale's bytes.
        kind: its wire type.
        largest: largest valid scale.
        code: code of the error.

    Returns:
        (1,) array of type ``kind``.

    Raises:
        Invalid: if the scale is out of range or NaN.
    """
    scale: Array = part.view(kind)
    if not scale[0] <= largest or np.signbit(scale[0]):
        raise Invalid(code, f"the scale is {scale[0]}; it must be 0 to {largest:g}")
    return scale


def sign_words(number: Array) -> tuple[Any, Any]:
    """Return the bits of plus and of minus a (1,) non-negative number."""
    plus = bits_of(number)[0]
    return plus, plus | plus.dtype.type(1 << (8 * plus.itemsize - 1))
