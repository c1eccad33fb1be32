"""Many arrays as columns: tensors of a caller, arrays that values are added to, and decoded entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.element_types import DTYPES
from wirecodec.support import DecodedChunk


@dataclass(frozen=True, eq=False)
class ArrayColumns:
    """Columns that describe n objects. The caller keeps the objects alive.

    Attributes:
        addresses: (n,) i64, of the first element.
        sizes: (n,) i64, number of elements.
        kinds: (n,) i64, the element type's place in ``DTYPES``; -1 for an object that is not a contiguous,
            aligned ``numpy.ndarray`` of one of these types.
        writeable: (n,) bool.
    """

    addresses: Array
    sizes: Array
    kinds: Array
    writeable: Array

    @classmethod
    def of_attributes(cls, objects: Sequence[Any]) -> ArrayColumns:
        """Describe objects by the public attributes of arrays, which take 2 µs per array."""
        arrays = [x if type(x) is np.ndarray else None for x in objects]
        plain = [
            x is not None and x.dtype in DTYPES and x.flags.c_contiguous and x.flags.aligned for x in arrays
        ]
        known = [x for x in arrays if x is not None]
        addresses, present = np.zeros(len(arrays), np.int64), np.array([x is not None for x in arrays], bool)
        addresses[present] = addresses_of(known)
        kinds = [
            DTYPES.index(x.dtype) if x is not None and ok else -1 for x, ok in zip(arrays, plain, strict=True)
        ]
        return cls(
            addresses,
            np.array([0 if x is None else x.size for x in arrays], np.int64),
            np.array(kinds, np.int64),
            np.array([x is not None and x.flags.writeable for x in arrays], bool),
        )


@dataclass(frozen=True, eq=False)
class Targets:
    """Arrays that values are added to, one per key.

    Attributes:
        arrays: float32 or float64, of any shape, contiguous, writable.
        columns: their description if it is known.
    """

    arrays: Sequence[Any]
    columns: ArrayColumns | None = None


@dataclass(frozen=True, eq=False)
class DecodedBatch:
    """Decoded chunks of many entries that have the same codecs and dtype.

    Attributes:
        entries: (n,) i64, numbers in the table, ascending.
        counts: (n,) i64, stored elements of each.
        indices: u32 of all entries, each entry's counted from its base; None if all elements are stored.
        index_places: (n,) i64, the place of each entry's indices.
        values: of all entries, and perhaps other numbers between them.
        value_places: (n,) i64, the place of each entry's values.
    """

    entries: Array
    counts: Array
    indices: Array | None
    index_places: Array
    values: Array
    value_places: Array

    def get_chunk(self, slot: int, row: Any) -> DecodedChunk:
        """Return the chunk of the entry in a place of ``entries``; ``row`` is its row of the table."""
        r, at = self.counts[slot], self.value_places[slot]
        indices = None
        if self.indices is not None:
            first = self.index_places[slot]
            indices = self.indices[first : first + r]
        return DecodedChunk(int(row["base"]), int(row["d"]), indices, self.values[at : at + r])

    def only(self, rows: Array) -> DecodedBatch:
        """Return the chunks of some entries, (n,) bool."""
        places = self.index_places[rows], self.values, self.value_places[rows]
        return DecodedBatch(self.entries[rows], self.counts[rows], self.indices, *places)

    def arrays(self) -> Iterator[tuple[Array | None, Array]]:
        """Yield the indices, i32 and read-only, or None for all, and the values of each entry."""
        indices = None if self.indices is None else read_only(self.indices.view(np.int32))
        places = self.index_places.tolist(), self.value_places.tolist(), self.counts.tolist()
        for first, at, r in zip(*places, strict=True):
            yield None if indices is None else indices[first : first + r], self.values[at : at + r]
