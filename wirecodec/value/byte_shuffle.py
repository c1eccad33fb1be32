"""Byte shuffle: the first bytes of all elements, then the second bytes of all elements, and so on.

General-purpose compressors profit from it (formats/spec/value/deflate.md, zstd.md): it separates signs and
exponents, which are compressible, from the low fraction bytes, which are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array


def write_content(values: Array, shuffle: bool) -> memoryview:
    """View (r,) values as bytes, shuffled if ``shuffle`` is True."""
    raw = values.view(np.uint8)
    if shuffle:
        raw = np.ascontiguousarray(raw.reshape(values.size, -1).T).reshape(-1)
    return raw.data


def read_content(content: bytes | memoryview, shuffle: bool, dtype: np.dtype[Any]) -> Array:
    """Convert r · itemsize bytes to (r,) values.

    The result is a read-only view of ``content`` if it is not shuffled.
    """
    raw = np.frombuffer(content, np.uint8)
    if not shuffle:
        return raw.view(dtype)
    out = np.empty((raw.size // dtype.itemsize, dtype.itemsize), np.uint8)
    for n, plane in enumerate(raw.reshape(dtype.itemsize, -1)):
        out[:, n] = plane
    return out.reshape(-1).view(dtype)
