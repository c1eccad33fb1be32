"""Scales: one number for many values, with its wire type, range and rounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.value.float32_convert import MAX_FLOAT32
from wirecodec.value.raw import round_to_16_bits

__all__ = ["MAX_SCALE", "max_scale", "round_scale", "scale_type"]

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
