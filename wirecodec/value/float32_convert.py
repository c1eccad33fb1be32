"""Conversion of elements to float32, in which most lossy codecs compute, and back."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError
from wirecodec.value.raw import round_to_16_bits, widen

MAX_FLOAT32 = {
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float(np.array([0x7F7F0000], np.uint32).view(np.float32)[0]),
    "float64": float(np.finfo(np.float32).max),
}
"""Largest binary32 number that each element type holds, by type name."""


@cache
def max_float32(dtype: np.dtype[Any]) -> float:
    """Return the largest binary32 number that an element type holds.

    The result is cached because ``dtype.name`` takes microseconds.
    """
    return MAX_FLOAT32[dtype.name]


def to_float32(values: Array, codec: str) -> Array:
    """Round elements to float32.

    Args:
        values: (r,) array of an element type.
        codec: name of the codec, used in the error message.

    Raises:
        EncodeError: if a value becomes infinite; ``position`` is its index.
    """
    if values.dtype.itemsize == 2:
        return widen(values)
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        x = values.astype(np.float32)
    if (over := np.isinf(x)).any():
        at = int(np.argmax(over))
        raise EncodeError(f"{values[at]} is too large for the float32 of {codec}", position=at)
    return x


def from_float32(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round float32 values, at most the type's ``MAX_FLOAT32``, to an element type."""
    if dtype.itemsize != 2:
        return values.astype(dtype, copy=False)
    return round_to_16_bits(bits_of(values), dtype)[0].view(dtype)
