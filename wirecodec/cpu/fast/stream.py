"""Passes over large arrays on the host that bypass the caches; see ``wirecodec.kernels.cpu.stream``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.base import INFINITY_BITS

LINE = 64
MIN_STREAMED = 2**18
"""Bytes below which an array stays in the caches, so ordinary stores are faster."""
MIN_CLEARED_PER_THREAD = 2**21
"""Bytes that justify another thread."""


def add_streamed(a: Array, b: Array, out: Array) -> bool:
    """Compute out = a + b if all sums are finite; else return False, with undefined contents of ``out``.

    Args:
        a, b: (n,) float32 or float64, of one type.
        out: (n,) of that type, from ``arrays.aligned``.
    """
    from wirecodec.kernels.cpu import stream

    return bool(
        stream.add_streamed(
            read_only(bits_of(a)), read_only(bits_of(b)), bits_of(out), INFINITY_BITS[a.dtype]
        )
    )


def clear(array: Array) -> None:
    """Set all elements of a flat, contiguous array to +0."""
    if array.nbytes < MIN_STREAMED:
        array.fill(0)
        return
    from wirecodec.kernels.cpu import stream
    from wirecodec.kernels.cpu.threads import map_ranges

    octets = array.view(np.uint8)
    first = _count_unaligned(array)
    lines = (octets.size - first) // LINE
    octets[:first] = 0
    octets[first + lines * LINE :] = 0

    def clear_lines(start: int, stop: int) -> None:
        stream.clear(octets[first + start * LINE : first + stop * LINE].view(np.uint64))

    map_ranges(clear_lines, lines, MIN_CLEARED_PER_THREAD // LINE)


def clear_all(arrays: Sequence[Array]) -> bool:
    """Set all elements of flat, contiguous arrays to +0; threads divide each large one, and the others.

    Returns True.
    """
    small = []
    for array in arrays:
        if array.nbytes < 2 * MIN_CLEARED_PER_THREAD:
            small.append(array)
        else:
            clear(array)
    total = sum([array.nbytes for array in small])
    if total < 2 * MIN_CLEARED_PER_THREAD:
        for array in small:
            if array.nbytes < MIN_STREAMED:
                array.fill(0)
            else:
                clear(array)
        return True
    from wirecodec.kernels.cpu.threads import least_units, map_ranges

    def clear_range(first: int, stop: int) -> None:
        for array in small[first:stop]:
            clear(array)

    map_ranges(clear_range, len(small), least_units(MIN_CLEARED_PER_THREAD, len(small), total))
    return True


def take(x: Array, indices: Array) -> Array:
    """Return the elements at (k,) unique indices, and set them to +0."""
    from wirecodec.kernels.cpu import stream

    values = np.empty(indices.size, x.dtype)
    stream.take(bits_of(x), read_only(indices.view(f"u{indices.itemsize}")), bits_of(values))
    return values


def scatter_streamed(out: Array, indices: Array, values: Array) -> bool:
    """Set an array to +0, except for (k,) values of its type at ascending, unique indices.

    Returns False, and leaves the array as it is, if it is small.
    """
    if out.nbytes < MIN_STREAMED:
        return False
    from wirecodec.kernels.cpu import stream

    first = _count_unaligned(out) // out.itemsize
    where = read_only(indices.view(f"u{indices.itemsize}"))
    stream.scatter(bits_of(out), first, where, read_only(bits_of(values)))
    return True


def _count_unaligned(array: Array) -> int:
    """Return the number of bytes before the first cache line that begins in an array."""
    return int(-array.__array_interface__["data"][0] % LINE)
