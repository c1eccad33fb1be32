"""Byte planes: the first byte of every element, then the second of every element, and so on.

What general compressors are given (formats/spec/value/deflate.md, zstd.md): signs and exponents lie side by
side, apart from the fractions, in which there is nothing to find.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array

__all__ = ["read_content", "write_content"]


def write_content(values: Array, shuffle: bool) -> memoryview:
    """The bytes of (r,) values, in planes where ``shuffle`` is set."""
    raw = values.view(np.uint8)
    if shuffle:
        raw = np.ascontiguousarray(raw.reshape(values.size, -1).T).reshape(-1)
    return raw.data


def read_content(content: bytes, shuffle: bool, dtype: np.dtype[Any]) -> Array:
    """The (r,) values of r·itemsize bytes, read-only where they are not in planes."""
    raw = np.frombuffer(content, np.uint8)
    if not shuffle:
        return raw.view(dtype)
    out = np.empty((raw.size // dtype.itemsize, dtype.itemsize), np.uint8)
    for n, plane in enumerate(raw.reshape(dtype.itemsize, -1)):
        out[:, n] = plane
    return out.reshape(-1).view(dtype)
