"""Store of decoded chunks: small ones stay in shared columns until they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.schema import MAX_OBJECTS
from wirecodec.cpu.chunk import stored_type
from wirecodec.cpu.columns import DecodedBatch
from wirecodec.support import DecodedChunk

_SMALL = 16
"""Elements up to which a chunk is smaller than its objects."""

_MAX_VALUE_BYTES = 16
"""Bytes of the largest value, a complex coefficient of float64."""


class DecodedChunks(Mapping[int, list[DecodedChunk]]):
    """Decoded chunks of a container's tensors by key; objects are made when they are read."""

    def __init__(self, store: ChunkStore, header: ContainerHeader) -> None:
        self._store, self._spans = store, header.spans
        self._count = header.extension.count(header.spans)
        self._replaced: dict[int, list[DecodedChunk]] = {}
        self._is_dense = header.spans.keys.size == self._count  # so that a key is its own place

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def __getitem__(self, key: int) -> list[DecodedChunk]:
        if key in self._replaced:
            return self._replaced[key]
        at = key if self._is_dense else self._spans.find(key)
        assert at is not None
        start = int(self._spans.starts[at])
        return [self._store[entry] for entry in range(start, start + int(self._spans.chunks[at]))]

    def arrays(self) -> dict[int, tuple[Array | None, Array]]:
        """Return indices and values by key, as ``DecodedBatch.arrays``, of tensors that a batch has whole."""
        keys = np.full(self._store.entries, -1)
        alone = self._spans.chunks == 1
        keys[self._spans.starts[alone]] = self._spans.keys[alone]
        return {
            key: arrays
            for batch in self._store.batches
            for key, arrays in zip(keys[batch.entries].tolist(), batch.arrays(), strict=True)
            if key >= 0 and key not in self._replaced
        }

    def replace(self, key: int, parts: list[DecodedChunk]) -> None:
        """Replace the chunks of a tensor, or set those of a member of a fused entry."""
        self._replaced[key] = parts

    def pop(self, key: int) -> list[DecodedChunk]:
        """Return the chunks of a tensor that is not read again."""
        parts = self[key]
        self._replaced.pop(key, None)
        return parts


class ChunkStore:
    """Store of the decoded chunks of a table's entries; small chunks are columns until they are read.

    Attributes:
        entries: number of entries.
        batches: chunks of many entries each.
    """

    def __init__(self, header: ContainerHeader) -> None:
        table = header.table
        self._whole: dict[int, DecodedChunk] = {}
        self.entries, self.batches = table.size, list[DecodedBatch]()
        self._batch_of, self._slots = np.full(table.size, -1, np.int32), np.empty(table.size, np.int32)
        self._table, self._header = table, header
        self._max_small = _SMALL if table.size > MAX_OBJECTS else 0
        if self._max_small:
            stored = table["r"].astype(np.int64)
            stored[stored > self._max_small] = 0
            self._stops = np.cumsum(stored)
            total = int(self._stops[-1])
            self._indices = np.empty(total, np.uint32)
            self._values = np.empty(total * _MAX_VALUE_BYTES, np.uint8)

    def keep(self, entry: int, part: DecodedChunk) -> None:
        """Store an entry's chunk; arrays on a GPU are kept as objects."""
        r = part.values.size
        if r > self._max_small or self._max_small == 0 or not isinstance(part.values, np.ndarray):
            self._whole[entry] = part
        elif r:
            start = int(self._stops[entry]) - r
            if part.indices is not None:
                self._indices[start : start + r] = part.indices
            self._column(start, part.values.dtype, r)[...] = part.values

    def keep_batch(self, batch: DecodedBatch) -> None:
        """Store the chunks of a batch."""
        self._batch_of[batch.entries] = len(self.batches)
        self._slots[batch.entries] = np.arange(batch.entries.size)
        self.batches.append(batch)

    def __getitem__(self, entry: int) -> DecodedChunk:
        """Return an entry's chunk."""
        if self.batches and self._batch_of[entry] >= 0:
            batch = self.batches[int(self._batch_of[entry])]
            return batch.get_chunk(int(self._slots[entry]), self._table[entry])
        if entry in self._whole:
            return self._whole[entry]
        row = self._header.row(self._table[entry].tolist())
        base, d, r = row.base, row.d, row.r
        dtype = stored_type(row)
        start = int(self._stops[entry]) - r
        if r == d:
            return DecodedChunk(base, d, None, self._column(start, dtype, r))
        return DecodedChunk(base, d, self._indices[start : start + r], self._column(start, dtype, r))

    def _column(self, start: int, dtype: np.dtype[Any], r: int) -> Array:
        """Return the part of the value column for r values of a dtype from ``start`` on."""
        at = start * _MAX_VALUE_BYTES
        return self._values[at : at + r * dtype.itemsize].view(dtype)
