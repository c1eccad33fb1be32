"""Decoding on the host: from a container's sections to chunks, and from chunks to tensors.

A container may hold very many small tensors, whose objects take far more memory than its bytes. So small
chunks are kept in shared columns until the whole container has been checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, index_dtype, nothing
from wirecodec.container.reader import ContainerHeader, Row, sections
from wirecodec.container.schema import TensorSpec, TensorSpecs
from wirecodec.cpu import forms
from wirecodec.cpu.chunk import decode_chunk, element_type
from wirecodec.cpu.chunk_store import ChunkStore, DecodedChunks
from wirecodec.cpu.columns import DecodedBatch
from wirecodec.cpu.fuse import split_fused, split_joined
from wirecodec.errors import WireError
from wirecodec.limits import DecodeLimits
from wirecodec.registry import transform
from wirecodec.sparse import SparseTensor
from wirecodec.support import DecodedChunk


def decode_chunks(
    data: Bytes,
    header: ContainerHeader,
    limits: DecodeLimits,
    read: Callable[[Row, list[Bytes], DecodeLimits], DecodedChunk] = decode_chunk,
    cut: Callable[[DecodedChunk, Array], dict[int, list[DecodedChunk]]] = split_fused,
    batches: Sequence[DecodedBatch] = (),
    skipped: Array | None = None,
) -> DecodedChunks:
    """Decode all chunks of a container; split fused entries, and invert transforms.

    Args:
        data: the container.
        header: the container's header.
        limits: bounds on the cost.
        read: decodes a chunk.
        cut: splits a fused chunk into its members.
        batches: entries that are decoded already.
        skipped: (n_entries,) bool, entries whose tensors are not asked for; None for none.

    ``read`` and ``cut`` may leave arrays on a GPU if no tensor is transformed.

    Returns:
        The tensors' chunks by key.

    Raises:
        WireError: a section is not valid.
    """
    kept = ChunkStore(header)
    done = np.zeros(header.table.size, np.bool_) if skipped is None else skipped.copy()
    for batch in batches:
        kept.keep_batch(batch)
        done[batch.entries] = True
    for entry, part in decode_entries(data, header, limits, read, done):
        kept.keep(entry, part)
    spans = header.spans
    decoded = DecodedChunks(kept, header)
    vectors = header.extension.joined()
    vector = next(vectors, None)
    for row, (key, size) in zip(
        header.table[spans.starts[spans.domains > 0]].tolist(), header.extension.lengths(), strict=True
    ):
        if skipped is not None and skipped[spans.starts[spans.find(key)]]:
            vector = next(vectors, None) if vector is not None and vector[0, 0] == key else vector
            continue
        field = Row(*row)
        part = invert_transform(decoded[key], field.dtype >> 4, size, element_type(field))
        if vector is None or vector[0, 0] != key:
            decoded.replace(key, [part])
            continue
        for member, chunks in split_joined(part, vector).items():
            decoded.replace(member, chunks)
        vector = next(vectors, None)
    for group in header.extension.groups():
        if skipped is not None and skipped[spans.starts[spans.find(int(group[0, 0]))]]:
            continue
        for key, chunks in cut(decoded[int(group[0, 0])][0], group).items():
            decoded.replace(key, chunks)
    return decoded


def decode_entries(
    data: Bytes,
    header: ContainerHeader,
    limits: DecodeLimits,
    read: Callable[[Row, list[Bytes], DecodeLimits], DecodedChunk] = decode_chunk,
    done: Array | None = None,
) -> Iterator[tuple[int, DecodedChunk]]:
    """Yield (number, chunk) of the entries that are not done. Raises a WireError."""
    left = limits  # max_work bounds the sum over the entries
    for entry, offset, row, parts in sections(data, header, done):
        try:
            part = read(row, parts, left)
        except WireError as error:
            raise error.at(entry=entry, offset=offset) from error.__cause__
        if part.work:
            left = dataclasses.replace(left, max_work=left.max_work - part.work)
        yield entry, part


def tensors_of(
    data: Bytes, header: ContainerHeader, specs: TensorSpecs, limits: DecodeLimits
) -> list[SparseTensor]:
    """Decode the tensors of a container, in the order of their keys. Raises a WireError."""
    parts = decode_chunks(data, header, limits, batches=forms.current().decode_batches(data, header))
    arrays = parts.arrays()
    return [
        SparseTensor._of(*arrays[key], spec.shape, limits.max_dense)
        if key in arrays
        else concatenate_chunks(spec, parts.pop(key), limits)
        for key, spec in enumerate(specs)
    ]


def some_tensors_of(
    data: Bytes, header: ContainerHeader, specs: TensorSpecs, limits: DecodeLimits, keys: Sequence[int]
) -> dict[int, SparseTensor]:
    """Decode the tensors of some keys, ascending, and no other entries. Raises a WireError."""
    owners = {
        int(key): int(members[0, 0])
        for members in header.extension.sharing()
        for key in members[:, 0].tolist()
    }
    wanted = np.isin(header.table["key"], [owners.get(key, key) for key in keys])
    parts = decode_chunks(data, header, limits, skipped=~wanted)
    chosen, found = set(keys), {}
    for key, spec in enumerate(specs):
        if key in chosen:
            found[key] = concatenate_chunks(spec, parts.pop(key), limits)
    return found


def only_tensor_of(
    data: Bytes, header: ContainerHeader, spec: TensorSpec, limits: DecodeLimits
) -> SparseTensor:
    """Decode the tensor of a container for which ``plain_spec`` has a spec. Raises a WireError."""
    parts = decode_entries(data, header, limits)
    if header.table.size == 1:
        return concatenate_chunks(spec, [part for _, part in parts], limits)
    count = int(header.table["r"].sum(dtype=np.int64))
    return _join(spec, (part for _, part in parts), count, limits)


def invert_transform(parts: list[DecodedChunk], domain: int, size: int, dtype: np.dtype[Any]) -> DecodedChunk:
    """Invert a transform: all elements are present, or none if there is no coefficient."""
    count = sum(part.d for part in parts)
    if count and not any(part.values.size for part in parts):
        return DecodedChunk(0, size, nothing(np.dtype(np.uint32)), nothing(dtype))
    coefficients = np.zeros(count, parts[0].values.dtype)
    for part in parts:
        where = slice(None) if part.indices is None else part.indices
        coefficients[part.base : part.base + part.d][where] = part.values
    return DecodedChunk(0, size, None, transform(domain).inverse(coefficients, size, dtype))


def concatenate_chunks(spec: TensorSpec, parts: list[DecodedChunk], limits: DecodeLimits) -> SparseTensor:
    """Concatenate a tensor's chunks."""
    if len(parts) == 1:
        indices, values = parts[0].indices, parts[0].values
        where = None if indices is None else indices.view(np.int32).astype(index_dtype(spec.size), copy=False)
        return SparseTensor._of(where, values, spec.shape, limits.max_dense)
    return _join(spec, parts, sum(part.values.size for part in parts), limits)


def _join(spec: TensorSpec, parts: Iterable[DecodedChunk], count: int, limits: DecodeLimits) -> SparseTensor:
    """Join chunks that store ``count`` elements; each is copied before the next is decoded."""
    values = np.empty(count, spec.dtype)
    indices = None if count == spec.size else np.empty(count, index_dtype(spec.size))
    at = 0
    for part in parts:
        stop = at + part.values.size
        values[at:stop] = part.values
        if indices is not None:
            local = np.arange(part.d, dtype=np.uint32) if part.indices is None else part.indices
            np.add(local.view(np.int32), part.base, out=indices[at:stop], dtype=indices.dtype)
        at = stop
    return SparseTensor._of(indices, values, spec.shape, limits.max_dense)
