"""What chunks decode to, until all of a container is known to be right.

A container may hold very many small tensors, and objects take far more room than its bytes do. So what small
chunks hold lies side by side, in columns; they become objects when they are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.chunk import Part, stored_type

__all__ = ["Parts"]

_SMALL = 16
"""Elements up to which a chunk is smaller than its objects."""

_FEW = 64
"""Entries of which nobody minds the objects."""

_LARGEST = 16
"""Bytes of the largest value, a complex coefficient of float64."""


class Parts:
    """The decoded chunks of a table's entries."""

    def __init__(self, table: Array) -> None:
        self._whole: dict[int, Part] = {}
        self._table = table
        self._most = _SMALL if table.size > _FEW else 0
        if self._most:
            stored = table["r"].astype(np.int64)
            stored[stored > self._most] = 0
            self._stops = np.cumsum(stored)
            room = int(self._stops[-1])
            self._indices = np.empty(room, np.uint32)
            self._values = np.empty(room * _LARGEST, np.uint8)

    def keep(self, entry: int, part: Part) -> None:
        """What an entry decodes to; arrays on a GPU stay as they are."""
        r = part.values.size
        if r > self._most or self._most == 0 or not isinstance(part.values, np.ndarray):
            self._whole[entry] = part
        elif r:
            start = int(self._stops[entry]) - r
            if part.indices is not None:
                self._indices[start : start + r] = part.indices
            self._column(start, part.values.dtype, r)[...] = part.values

    def __getitem__(self, entry: int) -> Part:
        """What an entry decoded to, once it is kept."""
        if entry in self._whole:
            return self._whole[entry]
        row = self._table[entry]
        base, d, r = int(row["base"]), int(row["d"]), int(row["r"])
        dtype = stored_type(row)
        start = int(self._stops[entry]) - r
        if r == d:
            return Part(base, d, None, self._column(start, dtype, r))
        return Part(base, d, self._indices[start : start + r], self._column(start, dtype, r))

    def _column(self, start: int, dtype: np.dtype[Any], r: int) -> Array:
        """The room for r values of a type, from ``start`` on."""
        at = start * _LARGEST
        return self._values[at : at + r * dtype.itemsize].view(dtype)
