"""From a container's sections to its tensors' chunks, and from these to tensors or into sums.

A container may hold very many small tensors, and objects take far more room than its bytes do. So until all
of it is known to be right, what small chunks hold lies side by side, in columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, integers, nothing, read_only
from wirecodec.container.header import Head, Row, sections
from wirecodec.container.schema import Outline, Outlines
from wirecodec.cpu.chunk import decode_chunk, element_type, stored_type
from wirecodec.cpu.fuse import parted
from wirecodec.errors import WireError
from wirecodec.limits import DecodeLimits
from wirecodec.registry import transform
from wirecodec.sparse import SparseTensor, index_dtype
from wirecodec.support import Part

__all__ = ["add", "add_parts", "parts_of", "sparse_of", "tensors_of"]

_SMALL = 16
"""Elements up to which a chunk is smaller than its objects."""

_FEW = 64
"""Entries of which nobody minds the objects."""

_LARGEST = 16
"""Bytes of the largest value, a complex coefficient of float64."""


def parts_of(
    data: Bytes,
    head: Head,
    limits: DecodeLimits,
    read: Callable[[Row, list[Bytes], DecodeLimits], Part] = decode_chunk,
    cut: Callable[[Part, Array], dict[int, list[Part]]] = parted,
) -> dict[int, list[Part]]:
    """Every tensor's chunks, by key; fused entries cut into their members, coefficients transformed back.

    ``read`` decodes a chunk and ``cut`` cuts a fused one; both may leave their arrays on a GPU where nothing
    is transformed.
    """
    kept = _Kept(head.table)
    left = limits  # max_work bounds the sum over the entries
    for entry, offset, row, parts in sections(data, head):
        try:
            part = read(row, parts, left)
        except WireError as error:
            raise error.at(entry=entry, offset=offset) from error.__cause__
        if part.work:
            left = dataclasses.replace(left, max_work=left.max_work - part.work)
        kept.keep(entry, part)
    spans = head.spans
    runs = zip(integers(spans.keys), integers(spans.starts), integers(spans.chunks), strict=True)
    found = {key: [kept[entry] for entry in range(start, start + n)] for key, start, n in runs}
    for row, (key, size) in zip(
        head.table[spans.starts[spans.domains > 0]].tolist(), head.block.lengths(), strict=True
    ):
        found[key] = [_restored(found[key], Row(*row), size)]
    for group in head.block.groups():
        found.update(cut(found[int(group[0, 0])][0], group))
    return found


def tensors_of(data: Bytes, head: Head, outlines: Outlines, limits: DecodeLimits) -> list[SparseTensor]:
    """Decode the tensors of a container, in the order of their keys. Raises a WireError."""
    parts = parts_of(data, head, limits)
    return [sparse_of(outline, parts.pop(key), limits) for key, outline in enumerate(outlines)]


def add(data: Bytes, head: Head, targets: Sequence[Array], scale: float, limits: DecodeLimits) -> None:
    """Add scale * values into arrays, one per key, after the whole container is decoded."""
    decoded = parts_of(data, head, limits)
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        for key, target in enumerate(targets):
            add_parts(target.reshape(-1), decoded[key], scale)


def _restored(parts: list[Part], row: Row, size: int) -> Part:
    """A tensor of its coefficients: all of it is present, or nothing where no coefficient is."""
    count, dtype = sum(part.d for part in parts), element_type(row)
    if count and not any(part.values.size for part in parts):
        return Part(0, size, nothing(np.dtype(np.uint32)), nothing(dtype))
    coefficients = np.zeros(count, parts[0].values.dtype)
    for part in parts:
        where = slice(None) if part.indices is None else part.indices
        coefficients[part.base : part.base + part.d][where] = part.values
    return Part(0, size, None, transform(row.dtype >> 4).inverse(coefficients, size, dtype))


def sparse_of(outline: Outline, parts: list[Part], limits: DecodeLimits) -> SparseTensor:
    """A tensor's chunks joined."""
    values = parts[0].values if len(parts) == 1 else np.concatenate([part.values for part in parts])
    if all(part.indices is None for part in parts):
        return SparseTensor._of(None, values, outline.shape, limits.max_dense)
    if len(parts) == 1:
        assert parts[0].indices is not None
        where = parts[0].indices.view(np.int32).astype(index_dtype(outline.size), copy=False)
        return SparseTensor._of(where, values, outline.shape, limits.max_dense)
    indices = np.empty(values.size, index_dtype(outline.size))
    at = 0
    for part in parts:
        local = np.arange(part.d, dtype=np.uint32) if part.indices is None else part.indices
        np.add(local, part.base, out=indices[at : at + local.size], dtype=indices.dtype, casting="unsafe")
        at += local.size
    return SparseTensor._of(indices, values, outline.shape, limits.max_dense)


def add_parts(target: Array, parts: list[Part], scale: float) -> None:
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


class _Kept:
    """The decoded chunks of a table's entries; objects when they are asked for."""

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
        row = Row(*self._table[entry].tolist())
        base, d, r = row.base, row.d, row.r
        dtype = stored_type(row)
        start = int(self._stops[entry]) - r
        if r == d:
            return Part(base, d, None, self._column(start, dtype, r))
        return Part(base, d, self._indices[start : start + r], self._column(start, dtype, r))

    def _column(self, start: int, dtype: np.dtype[Any], r: int) -> Array:
        """The room for r values of a type, from ``start`` on."""
        at = start * _LARGEST
        return self._values[at : at + r * dtype.itemsize].view(dtype)
