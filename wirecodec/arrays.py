"""Functions of NumPy arrays: their bits, their memory, and views of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Bytes: TypeAlias = "npt.NDArray[np.uint8]"

WORD = np.dtype("<u4")
"""Word of a container's sections."""
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
"""Unsigned integers by their size in bytes."""


def bits_of(x: Array) -> Array:
    """View the elements as unsigned integers of their own width."""
    words: Array = x.view(UNSIGNED[x.dtype.itemsize])
    return words


def index_dtype(size: int) -> np.dtype[Any]:
    """Return int32 if it holds every index of a tensor of ``size`` elements, else int64."""
    return np.dtype(np.int32 if size <= 2**31 else np.int64)


def aligned(size: int, dtype: Any) -> Array:
    """Allocate a flat, uninitialised array that begins at a multiple of 64 bytes, a cache line."""
    kind = np.dtype(dtype)
    buffer = np.empty(size * kind.itemsize + 64, np.uint8)
    first = -buffer.ctypes.data % 64
    array: Array = buffer[first : first + size * kind.itemsize].view(kind)
    return array


def aligned_like(arrays: Iterable[Array]) -> list[Array]:
    """Allocate an array like each one, as ``aligned`` does."""
    made = []
    for x in arrays:
        buffer = np.empty(x.nbytes + 64, np.uint8)
        first = -buffer.__array_interface__["data"][0] % 64
        made.append(buffer[first : first + x.nbytes].view(x.dtype).reshape(x.shape))
    return made


def span(head: Array, size: int) -> Array | None:
    """Return the ``size`` elements from the first of ``head`` on, in the array of which it is a part.

    Returns None if that array does not hold them. (``as_strided`` would keep a chain of all earlier views.)
    """
    base = head.base
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
        return None
    offset = head.ctypes.data - base.ctypes.data
    if offset < 0 or offset + size * head.itemsize > base.nbytes:
        return None
    vector: Array = np.ndarray((size,), head.dtype, buffer=base, offset=offset)
    return vector


def reuse(spare: Array | None, size: int, dtype: np.dtype[Any]) -> Array:
    """Return the spare array if it fits, else a new one; aligned to 64 bytes."""
    if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
        return aligned(size, dtype)
    return spare


def add_in_order(numbers: Iterable[float]) -> float:
    """Add numbers in their order from 0.0; ``sum`` compensates rounding from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def addresses_of(arrays: Sequence[Array]) -> Array:
    """Return the address of each array's first element, (n,) i64. The caller keeps the arrays alive."""
    return np.array([x.__array_interface__["data"][0] for x in arrays], np.int64)


def overlaps_itself(x: Array) -> bool:
    """Return whether elements of an array may share memory, as those of ``numpy.broadcast_to`` do."""
    span = x.itemsize
    for stride, n in sorted((abs(stride), n) for stride, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if stride < span:
            return x.size > 0
        span += stride * (n - 1)
    return False


def read_only(x: Array) -> Array:
    """Return a read-only view, or the array itself if it is one.

    Kernels get all inputs in this form, so that each is compiled once.
    """
    if not x.flags.writeable:
        return x
    view: Array = x.view()
    view.flags.writeable = False
    return view


@cache
def nothing(dtype: np.dtype[Any]) -> Array:
    """Return the one empty, read-only array of a dtype."""
    return read_only(np.empty(0, dtype))


def integers(column: Array) -> Iterator[int]:
    """Yield an array's (n,) integers as Python integers, which take five times the memory: 256 at a time."""
    return chain.from_iterable(column[at : at + 256].tolist() for at in range(0, column.size, 256))
