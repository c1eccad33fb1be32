"""Fields of many NumPy arrays, read from their own headers; ``cpu.fast.headers`` checks the layout."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import view_at

DATA, NDIM, DIMENSIONS, DESCRIPTION, FLAGS, WORDS = 0, 1, 2, 5, 6, 7
"""Words of NumPy's PyArrayObject_fields after the object's head."""
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
LOW_HALF = 0xFFFFFFFF
TYPE_FIELDS = ~0xFF000000
"""Bits of the word of PyArray_Descr that holds kind, character, byte order, flags and number; no flags."""
NO_WORDS = np.empty(0, np.int64)


@kernel
def read(
    objects: Array,
    head: int,
    array_type: int,
    types: Array,
    addresses: Array,
    sizes: Array,
    kinds: Array,
    writeable: Array,
) -> None:
    """Read address, size, element type and flags of each array.

    Args:
        objects: (n,) i64, addresses of Python objects.
        head: words of an object's head; its type is the last of them.
        array_type: address of the type of arrays.
        types: i64, addresses of the known element types.
        addresses: (n,) i64, written; 0 for an object of another type.
        sizes: (n,) i64, written: number of elements.
        kinds: (n,) i64, written: number of the element type in ``types``; -1 for others, for objects of
            another type, and for arrays that are not contiguous and aligned.
        writeable: (n,) bool, written.
    """
    for i in range(objects.size):
        words = view_at(objects[i], head + WORDS, NO_WORDS)
        addresses[i], sizes[i], kinds[i], writeable[i] = 0, 0, -1, False
        if words[head - 1] != array_type:
            continue
        flags = words[head + FLAGS] & LOW_HALF
        dimensions = view_at(words[head + DIMENSIONS], words[head + NDIM] & LOW_HALF, NO_WORDS)
        size = 1
        for j in range(dimensions.size):
            size *= dimensions[j]
        addresses[i], sizes[i], writeable[i] = words[head + DATA], size, flags & WRITEABLE != 0
        if flags & C_CONTIGUOUS and flags & ALIGNED:
            field = _type_field(words[head + DESCRIPTION], head)
            for kind in range(types.size):
                if field == _type_field(types[kind], head):
                    kinds[i] = kind


@inline
def _type_field(description: int, head: int) -> int:
    """Return a number that identifies the element type; an array may have a copy of its description."""
    return view_at(description, head + 2, NO_WORDS)[head + 1] & TYPE_FIELDS
