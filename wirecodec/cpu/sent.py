"""What receivers decode of a container of this process.

The values are decoded. The indices are those of the encoder, unless only a reader's codec knows them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.container.reader import Row
from wirecodec.container.schema import TensorSpec
from wirecodec.container.writer import Entry, EntryBatch, row_of
from wirecodec.cpu.chunk import decode_indices, decode_values
from wirecodec.cpu.columns import DecodedBatch
from wirecodec.cpu.decode import concatenate_chunks, invert_transform
from wirecodec.cpu.encode import Encoded
from wirecodec.cpu.fuse import split_fused, split_joined
from wirecodec.cpu.selected import ModelSelection
from wirecodec.limits import UNLIMITED
from wirecodec.registry import EXPERIMENTAL, index_codec, value_codec
from wirecodec.select.term_table import sum_before
from wirecodec.sparse import SparseTensor
from wirecodec.support import DecodedChunk

KnownChunk: TypeAlias = "tuple[int, DecodedChunk, Array | None]"
"""Key of a chunk's tensor, the chunk, and rows (key, size) of the tensors that share it, or None."""
KnownBatch: TypeAlias = "tuple[DecodedBatch, Array, Array]"
"""Chunks of many tensors, their keys, and their sizes."""


class SentTensors(Mapping[str, SparseTensor]):
    """Tensors as receivers decode them, by name; each is made when it is first used.

    Args:
        model: what was selected.
        encoded: its container.
    """

    def __init__(self, model: ModelSelection, encoded: Encoded) -> None:
        self._names, self._shapes = model.names, model.shapes
        self._transforms = {key: (x.domain, x.dtype) for key, x in model.supports.items() if x.domain}
        self._members, self._vectors = encoded.members, model.vectors
        self._made: dict[str, SparseTensor] = {}
        self._chunks: dict[int, list[DecodedChunk]] = {}  # by the first key of their entry
        self._rows: dict[int, _Row] = {}  # of tensors that were encoded together
        members = encoded.members if model.batches else ()  # only these need addresses
        self._counts = [model.counts_of(rows[:, 0].tolist()) for rows in members]
        self._places: list[tuple[Array, Array]] = []  # keys and addresses of tensors in batches
        self._batches: list[KnownBatch] = []
        self._is_known = all(map(_is_known, encoded.entries))
        blob, starts, at = read_only(encoded.blob), encoded.starts, len(encoded.entries)
        for entry, start in zip(encoded.entries, starts, strict=False):
            self._chunks.setdefault(entry.key, []).append(_decode_entry(entry, blob[start:]))
        for batch in encoded.batches:
            words = batch.value_starts(np.asarray(starts[at : at + batch.keys.size]) >> 2)
            self._add_batch(batch, blob.view("<u4"), words)
            at += batch.keys.size

    @cached_property
    def addresses(self) -> Array:
        """Where the decoded values of each tensor begin, (n,) i64 by key; 0 if they have several chunks."""
        addresses = np.zeros(len(self._names), np.int64)
        for key, chunks in self._chunks.items():
            addresses[key] = addresses_of([chunks[0].values])[0] if len(chunks) == 1 else 0
        for keys, places in self._places:
            addresses[keys] = places
        for members, counts in zip(self._members, self._counts, strict=True):
            keys = members[:, 0]
            itemsize = self._chunks[int(keys[0])][0].values.itemsize
            addresses[keys] = addresses[keys[0]] + np.cumsum([0, *counts[:-1]]) * itemsize
        return addresses

    def known_values(self) -> tuple[list[KnownChunk], list[KnownBatch]] | None:
        """Return the values as they were decoded; None if receivers decode more than this process.

        These are tensors with transforms, and those whose index codec is lossy, bounded in its work, or the
        user's own.
        """
        if self._transforms or not self._is_known:
            return None
        groups = {int(members[0, 0]): members for members in self._members}
        chunks = [(key, one, groups.get(key)) for key, listed in self._chunks.items() for one in listed]
        return chunks, self._batches

    def _add_batch(self, batch: EntryBatch, words: Array, starts: Array) -> None:
        """Decode the values of tensors that were encoded together."""
        keys, sections = batch.keys.astype(np.int64), batch.value_sections
        ids = np.broadcast_to(sections.wire_id, keys.shape)
        cuts = np.cumsum(batch.r) - batch.r
        for wire_id in sorted(set(ids.tolist())):
            rows = ids == wire_id
            counts = batch.r[rows]
            columns = words, starts[rows], sections.lengths[rows], sum_before(counts), batch.dtype
            decoded = value_codec(wire_id).decode_batch(*columns)
            assert decoded is not None  # the sections are this process's own
            values, places = decoded
            indices_at = cuts[rows] if batch.indices is not None else np.full(counts.size, -1)
            parts = DecodedBatch(np.flatnonzero(rows), counts, batch.indices, indices_at, values, places)
            self._batches.append((parts, keys[rows], batch.d[rows]))
            self._places.append((keys[rows], addresses_of([values])[0] + places * values.itemsize))
            lists = [x.tolist() for x in (keys[rows], cuts[rows], places, counts)]
            for key, first, place, count in zip(*lists, strict=True):
                self._rows[key] = batch.indices, first, values, place, count

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, name: str) -> SparseTensor:
        if name not in self._made:
            self._made[name] = self._make(self._keys[name])
        return self._made[name]

    @cached_property
    def _keys(self) -> dict[str, int]:
        return {name: key for key, name in enumerate(self._names)}

    @cached_property
    def _split_chunks(self) -> dict[int, list[DecodedChunk]]:
        """Chunks of the tensors that share an entry, and elements of those that are transformed as one."""
        chunks: dict[int, list[DecodedChunk]] = {}
        for members in self._members:
            chunks |= split_fused(self._chunks[int(members[0, 0])][0], members)
        for members in self._vectors:
            first, size = int(members[0, 0]), int(members[:, 1].sum())
            domain, dtype = self._transforms[first]
            elements = invert_transform(self._chunks[first], domain, size, dtype)
            chunks |= split_joined(elements, members)
        return chunks

    def _make(self, key: int) -> SparseTensor:
        """Build one tensor."""
        shape = self._shapes[key]
        if key in self._rows:
            indices, first, values, place, count = self._rows[key]
            here = None if indices is None else read_only(indices[first : first + count].view(np.int32))
            return SparseTensor._of(here, values[place : place + count], shape, UNLIMITED.max_dense)
        parts = self._split_chunks.get(key) or self._chunks[key]
        if key in self._transforms and key not in self._split_chunks:
            domain, dtype = self._transforms[key]
            parts = [invert_transform(parts, domain, math.prod(shape), dtype)]
        return concatenate_chunks(TensorSpec("", shape, parts[0].values.dtype), parts, UNLIMITED)


def _is_known(entry: Entry) -> bool:
    """Tell whether receivers can decode an entry, and find the elements that the encoder knows."""
    if entry.index >= EXPERIMENTAL or entry.value >= EXPERIMENTAL:
        return False
    return entry.r in (0, entry.d) or (entry.is_known and not index_codec(entry.index).has_work)


_Row: TypeAlias = "tuple[Array | None, int, Array, int, int]"
"""Indices of many tensors and the place of this one's, values and the place of this one's, count."""


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
