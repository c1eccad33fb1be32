"""Decoding on the host: from a container's sections to chunks, and from chunks to tensors or into sums.

A container may hold very many small tensors, whose objects take far more memory than its bytes. So small
chunks are kept in shared columns until the whole container has been checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, integers, nothing, read_only
from wirecodec.container.reader import ContainerHeader, Row, sections
from wirecodec.container.schema import TensorSpec, TensorSpecs
from wirecodec.cpu.batch.add import DecodedContainer, add_batches
from wirecodec.cpu.batch.decode import DecodedBatch, decode_batches
from wirecodec.cpu.chunk import decode_chunk, element_type, stored_type
from wirecodec.cpu.fuse import split_fused
from wirecodec.cpu.guard import Guard
from wirecodec.cpu.stream import clear
from wirecodec.errors import WireError, number_of_container
from wirecodec.limits import DecodeLimits
from wirecodec.registry import transform
from wirecodec.sparse import SparseTensor, index_dtype
from wirecodec.support import DecodedChunk

__all__ = ["add", "add_chunks", "concatenate_chunks", "decode_chunks", "tensors_of"]

_SMALL = 16
"""Elements up to which a chunk is smaller than its objects."""

_MAX_OBJECTS = 64
"""Entries up to which all chunks are kept as objects."""

_MAX_VALUE_BYTES = 16
"""Bytes of the largest value, a complex coefficient of float64."""


def decode_chunks(
    data: Bytes,
    header: ContainerHeader,
    limits: DecodeLimits,
    read: Callable[[Row, list[Bytes], DecodeLimits], DecodedChunk] = decode_chunk,
    cut: Callable[[DecodedChunk, Array], dict[int, list[DecodedChunk]]] = split_fused,
    batches: Sequence[DecodedBatch] = (),
) -> dict[int, list[DecodedChunk]]:
    """Decode all chunks of a container; split fused entries, and invert transforms.

    Args:
        data: the container.
        header: the container's header.
        limits: bounds on the cost.
        read: decodes a chunk.
        cut: splits a fused chunk into its members.
        batches: entries that are decoded already.

    ``read`` and ``cut`` may leave arrays on a GPU if no tensor is transformed.

    Returns:
        {key: the tensor's chunks}.

    Raises:
        WireError: a section is not valid.
    """
    kept = _ChunkStore(header.table)
    left = limits  # max_work bounds the sum over the entries
    done = np.zeros(header.table.size, np.bool_)
    for batch in batches:
        kept.keep_batch(batch)
        done[batch.entries] = True
    for entry, offset, row, parts in sections(data, header, done):
        try:
            part = read(row, parts, left)
        except WireError as error:
            raise error.at(entry=entry, offset=offset) from error.__cause__
        if part.work:
            left = dataclasses.replace(left, max_work=left.max_work - part.work)
        kept.keep(entry, part)
    spans = header.spans
    runs = zip(integers(spans.keys), integers(spans.starts), integers(spans.chunks), strict=True)
    found = {key: [kept[entry] for entry in range(start, start + n)] for key, start, n in runs}
    for row, (key, size) in zip(
        header.table[spans.starts[spans.domains > 0]].tolist(), header.extension.lengths(), strict=True
    ):
        found[key] = [_invert_transform(found[key], Row(*row), size)]
    for group in header.extension.groups():
        found.update(cut(found[int(group[0, 0])][0], group))
    return found


def tensors_of(
    data: Bytes, header: ContainerHeader, specs: TensorSpecs, limits: DecodeLimits
) -> list[SparseTensor]:
    """Decode the tensors of a container, in the order of their keys. Raises a WireError."""
    parts = decode_chunks(data, header, limits, batches=decode_batches(data, header))
    return [concatenate_chunks(spec, parts.pop(key), limits) for key, spec in enumerate(specs)]


def add(
    containers: Sequence[tuple[Bytes, ContainerHeader]],
    targets: Sequence[Array],
    scale: float,
    limits: DecodeLimits,
    guard: Guard,
    *,
    replace: bool = False,
) -> None:
    """Add scale * values of containers, in their order, into arrays, one per key.

    All containers are decoded and checked first. A WireError has the number of its container. With
    ``replace``, the arrays are then set to +0 before anything is added.
    """
    decoded = []
    for number, (data, header) in enumerate(containers):
        with number_of_container(number if len(containers) > 1 else None):
            batches = decode_batches(data, header)
            stored = sum(batch.entries.size for batch in batches)
            plain = not (header.extension.is_fused or header.extension.is_transformed or guard.is_active)
            chunks = None
            if not plain or stored < np.count_nonzero(header.table["r"]):
                chunks = decode_chunks(data, header, limits, batches=batches)
                guard.check(chunks, [target.dtype for target in targets], scale)
            decoded.append((batches, chunks))
    together = [
        DecodedContainer(header.table, batches)
        for (_, header), (batches, chunks) in zip(containers, decoded, strict=True)
        if chunks is None
    ]
    for target in targets if replace else ():
        clear(target.reshape(-1))
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if len(together) == len(containers) and add_batches(together, targets, scale):
            return
        for (data, header), (batches, chunks) in zip(containers, decoded, strict=True):
            parts = chunks or decode_chunks(data, header, limits, batches=batches)
            for key, target in enumerate(targets):
                add_chunks(target.reshape(-1), parts[key], scale)


def _invert_transform(parts: list[DecodedChunk], row: Row, size: int) -> DecodedChunk:
    """Invert a transform: all elements are present, or none if there is no coefficient."""
    count, dtype = sum(part.d for part in parts), element_type(row)
    if count and not any(part.values.size for part in parts):
        return DecodedChunk(0, size, nothing(np.dtype(np.uint32)), nothing(dtype))
    coefficients = np.zeros(count, parts[0].values.dtype)
    for part in parts:
        where = slice(None) if part.indices is None else part.indices
        coefficients[part.base : part.base + part.d][where] = part.values
    return DecodedChunk(0, size, None, transform(row.dtype >> 4).inverse(coefficients, size, dtype))


def concatenate_chunks(spec: TensorSpec, parts: list[DecodedChunk], limits: DecodeLimits) -> SparseTensor:
    """Concatenate a tensor's chunks."""
    values = parts[0].values if len(parts) == 1 else np.concatenate([part.values for part in parts])
    if all(part.indices is None for part in parts):
        return SparseTensor._of(None, values, spec.shape, limits.max_dense)
    if len(parts) == 1:
        assert parts[0].indices is not None
        where = parts[0].indices.view(np.int32).astype(index_dtype(spec.size), copy=False)
        return SparseTensor._of(where, values, spec.shape, limits.max_dense)
    indices = np.empty(values.size, index_dtype(spec.size))
    at = 0
    for part in parts:
        local = np.arange(part.d, dtype=np.uint32) if part.indices is None else part.indices
        np.add(local, part.base, out=indices[at : at + local.size], dtype=indices.dtype, casting="unsafe")
        at += local.size
    return SparseTensor._of(indices, values, spec.shape, limits.max_dense)


def add_chunks(target: Array, parts: list[DecodedChunk], scale: float) -> None:
    """Add scale * values to a flat array; each value, product and sum is rounded to the array's type.

    Raises ValueError if the array does not have the elements that the parts' indices were checked against.
    """
    from wirecodec.kernels.cpu import support

    factor = target.dtype.type(scale)
    if target.size != sum(part.d for part in parts):
        raise ValueError(f"out has {target.size} elements; the tensor has {sum(part.d for part in parts)}")
    for part in parts:
        values = part.values.astype(target.dtype, copy=False)
        chunk = target[part.base : part.base + part.d]
        if part.indices is None:
            chunk += values if factor == 1 else factor * values
        else:
            support.add_at(chunk, read_only(part.indices), read_only(values), factor)


class _ChunkStore:
    """Store of the decoded chunks of a table's entries; small chunks are columns until they are read."""

    def __init__(self, table: Array) -> None:
        self._whole: dict[int, DecodedChunk] = {}
        self._batches: list[DecodedBatch] = []
        self._batch_of, self._slots = np.full(table.size, -1, np.int32), np.empty(table.size, np.int32)
        self._table = table
        self._max_small = _SMALL if table.size > _MAX_OBJECTS else 0
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
        self._batch_of[batch.entries] = len(self._batches)
        self._slots[batch.entries] = np.arange(batch.entries.size)
        self._batches.append(batch)

    def __getitem__(self, entry: int) -> DecodedChunk:
        """Return an entry's chunk."""
        if self._batches and self._batch_of[entry] >= 0:
            batch = self._batches[int(self._batch_of[entry])]
            return batch.get_chunk(int(self._slots[entry]), self._table[entry])
        if entry in self._whole:
            return self._whole[entry]
        row = Row(*self._table[entry].tolist())
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
