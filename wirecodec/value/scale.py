"""One number that stands for many values: its type on the wire, its range, its rounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.value.float32_convert import LARGEST as _SINGLE
from wirecodec.value.raw import narrowed

__all__ = ["LARGEST", "largest_scale", "rounded", "scale_type"]

LARGEST = _SINGLE | {"float64": float(np.finfo(np.float64).max)}
"""The greatest number that an element type holds, by its name."""


@cache
def largest_scale(dtype: np.dtype[Any]) -> float:
    """Return the greatest number that an element type holds; ``dtype.name`` takes microseconds."""
    return LARGEST[dtype.name]


def scale_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """binary64 for float64 elements, binary32 for all others."""
    return np.dtype("<f8" if dtype == np.float64 else "<f4")


def rounded(scale: Array, dtype: np.dtype[Any]) -> Array:
    """One number of ``scale_type`` in the element type, rounded to nearest, ties to even."""
    if dtype.itemsize != 2:
        return scale.astype(dtype)
    return narrowed(bits_of(scale), dtype)[0].view(dtype)
