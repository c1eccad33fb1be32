"""What receivers decode of a container of this process.

The values are decoded. The indices are those of the encoder, unless only a reader's codec knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.container.reader import Row
from wirecodec.container.schema import TensorSpec
from wirecodec.container.writer import Entry, EntryBatch, row_of
from wirecodec.cpu.chunk import decode_indices, decode_values
from wirecodec.cpu.decode import concatenate_chunks, invert_transform
from wirecodec.cpu.encode import Encoded, ModelSelection
from wirecodec.cpu.fuse import split_fused
from wirecodec.limits import UNLIMITED
from wirecodec.registry import value_codec
from wirecodec.sparse import SparseTensor
from wirecodec.support import DecodedChunk


class SentTensors(Mapping[str, SparseTensor]):
    """Tensors as receivers decode them, by name; each is made when it is first used.

    Args:
        model: what was selected.
        encoded: its container.

    Attributes:
        addresses: (n,) i64 by key, where the decoded values of each tensor begin; 0 if they have several
            chunks.
    """

    def __init__(self, model: ModelSelection, encoded: Encoded) -> None:
        self._model, self._made = model, dict[str, SparseTensor]()
        self._chunks: dict[int, list[DecodedChunk]] = {}  # by the first key of their entry
        self._rows: dict[int, tuple[Array, int, int]] = {}  # values, start and stop of tensors in batches
        self._runs = encoded.runs
        self.addresses = np.zeros(len(model.names), np.int64)
        blob, starts, at = read_only(encoded.blob), encoded.starts, len(encoded.entries)
        for entry, start in zip(encoded.entries, starts[:at].tolist(), strict=True):
            chunk = _decode_entry(entry, blob[start:])
            self.addresses[entry.key] = addresses_of([chunk.values])[0] if entry.base == 0 else 0
            self._chunks.setdefault(entry.key, []).append(chunk)
        for batch in encoded.batches:
            words = batch.value_starts(starts[at : at + batch.keys.size] >> 2)
            self._add_batch(batch, blob.view("<u4"), words)
            at += batch.keys.size
        for run in encoded.runs:
            values = self._chunks[run[0]][0].values
            counts = [model.count_of(key) for key in run]
            places = np.cumsum([0, *counts[:-1]]) * values.itemsize
            self.addresses[list(run)] = self.addresses[run[0]] + places

    def _add_batch(self, batch: EntryBatch, words: Array, starts: Array) -> None:
        """Decode the values of tensors that were encoded together."""
        keys, sections = batch.keys.astype(np.int64), batch.value_sections
        ids = np.broadcast_to(sections.wire_id, keys.shape)
        for wire_id in np.unique(ids).tolist():
            rows = ids == wire_id
            cuts = np.r_[0, np.cumsum(batch.r[rows])]
            columns = words, starts[rows], sections.lengths[rows], cuts, batch.dtype
            decoded = value_codec(wire_id).decode_batch(*columns)
            assert decoded is not None  # the sections are this process's own
            values, places = decoded
            self.addresses[keys[rows]] = addresses_of([values])[0] + places * values.itemsize
            stops = places + batch.r[rows]
            spans = zip(places.tolist(), stops.tolist(), strict=True)
            self._rows |= zip(keys[rows].tolist(), ((values, a, b) for a, b in spans), strict=True)

    def __len__(self) -> int:
        return len(self._model.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.names)

    def __getitem__(self, name: str) -> SparseTensor:
        if name not in self._made:
            self._made[name] = self._make(self._keys[name])
        return self._made[name]

    @cached_property
    def _keys(self) -> dict[str, int]:
        return {name: key for key, name in enumerate(self._model.names)}

    @cached_property
    def _split_chunks(self) -> dict[int, list[DecodedChunk]]:
        """Chunks of the tensors that share an entry."""
        chunks: dict[int, list[DecodedChunk]] = {}
        for run in self._runs:
            members = np.array([(key, self._model.size_of(key)) for key in run], np.int64)
            chunks |= split_fused(self._chunks[run[0]][0], members)
        return chunks

    def _make(self, key: int) -> SparseTensor:
        """Build one tensor."""
        shape = self._model.shapes[key]
        if key in self._rows:
            values, start, stop = self._rows[key]
            indices = self._model.support_of((key,)).indices
            places = None if indices is None else read_only(indices)
            return SparseTensor._of(places, values[start:stop], shape, UNLIMITED.max_dense)
        parts = self._split_chunks.get(key) or self._chunks[key]
        domain = self._model.supports[key].domain if key in self._model.supports else 0
        size = int(np.prod(shape, dtype=np.int64))
        if domain:
            parts = [invert_transform(parts, domain, size, self._model.supports[key].dtype)]
        return concatenate_chunks(TensorSpec("", shape, parts[0].values.dtype), parts, UNLIMITED)


def _decode_entry(entry: Entry, data: Array) -> DecodedChunk:
    """Decode one entry, whose sections begin with ``data``."""
    row, sections, at = Row(*row_of(entry)), [], 0
    for section in (entry.index_section, entry.value_section, entry.map_section):
        length = 0 if section is None else section.size
        sections.append(data[at : at + length])
        at += (length + 7) & -8
    indices = entry.indices if entry.r < entry.d else None
    if not entry.is_known:
        indices, _ = decode_indices(row, sections[0], UNLIMITED)
    values = np.ascontiguousarray(decode_values(row, sections[1], sections[2], UNLIMITED))
    return DecodedChunk(row.base, row.d, indices, values)
