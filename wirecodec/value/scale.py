"""One number that stands for many values: its type on the wire, its range, its rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, Array, bits_of

__all__ = ["LARGEST", "rounded", "scale_type"]

LARGEST = {
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float(np.array([0x7F7F0000], np.uint32).view(np.float32)[0]),
    "float64": float(np.finfo(np.float64).max),
}


def scale_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """binary64 for float64 elements, binary32 for all others."""
    return np.dtype("<f8" if dtype == np.float64 else "<f4")


def rounded(scale: Array, dtype: np.dtype[Any]) -> Array:
    """One number of ``scale_type`` in the element type, rounded to nearest, ties to even."""
    from wirecodec.kernels.cpu import narrow

    if dtype.itemsize != 2:
        return scale.astype(dtype)
    out = np.empty(1, np.uint16)
    (narrow.bfloat16_from_f32 if dtype == BFLOAT16 else narrow.half_from_f32)(bits_of(scale), out)
    return out.view(dtype)
