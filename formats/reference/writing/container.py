"""Containers from selected elements, for vectors and tests (SPEC sections 2-4), independent of the library.

``write`` is an exact writer by default. Its other arguments make valid containers that a library may never
write: foreign Rice parameters, no names, fused entries, unknown records, a higher minor version, flags of the
high byte. Readers must accept them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from formats.reference.element_types import TYPE_NAMED, ElementType, RecordType, write_types
from formats.reference.extension import CRITICAL, FUSED, JOINED, NAMES, SHAPES, TAG, TRANSFORM, TYPES
from formats.reference.floats import Format
from formats.reference.map.packed import PACKED
from formats.reference.prng import mix
from formats.reference.table import CHUNK
from formats.reference.tensors import Tensor
from formats.reference.transform.coefficients import COMPONENTS, PLAIN, coefficient_count, stored_type
from formats.reference.writing.assembly import Record, Row, assemble, write_extension_block
from formats.reference.writing.index.bitmap import Bitmap
from formats.reference.writing.index.bloom import Bloom
from formats.reference.writing.index.raw_index import RawIndex
from formats.reference.writing.map.packed import gather, sort_positions, write_packed
from formats.reference.writing.protocols import IndexWriter, ValueWriter
from formats.reference.writing.records import write_fused, write_joined, write_names, write_shape
from formats.reference.writing.transform.coefficients import Spectrum, write_lengths
from formats.reference.writing.value.raw import Raw

RAW = Raw()

Index = IndexWriter | Literal["raw-index", "bitmap"]
NAMED: dict[str, IndexWriter] = {"raw-index": RawIndex(), "bitmap": Bitmap()}


@dataclass
class _Chunk:
    """A chunk before it becomes an entry: its indices, and its elements' bytes.

    ``dtype`` is that of the tensor. Coefficients have their own type, and one or two components each.
    """

    key: int
    base: int
    d: int
    dtype: ElementType
    indices: Sequence[int]
    values: bytes
    domain: int = PLAIN


def write(
    tensors: Sequence[Tensor | Spectrum],
    index: Index | Sequence[Index] = "raw-index",
    value: ValueWriter | Sequence[ValueWriter] = RAW,
    *,
    seed: int = 0,
    names: bool = True,
    tag: bytes = b"",
    groups: Sequence[Sequence[str]] = (),
    joined: Sequence[Sequence[str]] = (),
    minor: int | None = None,
    flags: int = 0,
    extra: Sequence[Record] = (),
) -> bytes:
    """Write one container.

    Args:
        tensors: tensors in any order; the order of their names gives their keys. Tensors that are given as
            coefficients are not fused.
        index: one index codec for all entries, or one per entry in the table's order.
        value: one value codec for all entries, or one per entry in the table's order.
        seed: seed of value codecs that draw.
        names: whether to write a names record (if there is a tensor).
        tag: application data; empty for none.
        groups: names of the tensors to fuse into one entry each; sizes and element types are not checked.
        joined: names of the tensors of each joined vector. The first by its name is a Spectrum with all
            coefficients of the vector; the elements of the others are not used.
        minor: the minor version; None for the lowest that has the element types and records.
        flags: flags in addition to the one for the extension block.
        extra: additional records, placed among the others by their type.

    Raises:
        ValueError: if a value codec cannot represent a value.

    Examples:
        >>> from formats.reference import Tensor, write
        >>> len(write([Tensor("w", "float32", (4,), [1, 3], bytes(8))], "bitmap", names=False))
        80
    """
    ordered = sorted(tensors, key=lambda t: t.name.encode("utf-8"))
    keys = {t.name: key for key, t in enumerate(ordered)}
    records = [*extra]
    fused = sorted(sorted(keys[name] for name in group) for group in groups)
    vectors = sorted(sorted(keys[name] for name in group) for group in joined)
    sizes = {group[0]: sum(_size(ordered[key]) for key in group) for group in vectors}
    others = {key for group in vectors for key in group[1:]}
    parts = [
        part
        for key, t in enumerate(ordered)
        if key not in others and not any(key in g for g in fused)
        for part in _split_chunks(key, t, sizes.get(key, _size(t)))
    ]
    parts += [_fuse(group, ordered) for group in fused]
    parts.sort(key=lambda part: (part.key, part.base))
    if fused:
        records.append(
            Record(FUSED, CRITICAL, write_fused([[(k, _size(ordered[k])) for k in g] for g in fused]))
        )
    if names and ordered:
        records.append(Record(NAMES, 0, write_names([t.name.encode("utf-8") for t in ordered])))
    shapes = [(key, t.shape) for key, t in enumerate(ordered) if len(t.shape) != 1]
    if shapes:
        records.append(Record(SHAPES, 0, b"".join(write_shape(key, shape) for key, shape in shapes)))
    if vectors:
        body = write_joined([[(k, _size(ordered[k])) for k in group] for group in vectors])
        records.append(Record(JOINED, CRITICAL, body))
    lengths = [
        (key, sizes.get(key, _size(t)))
        for key, t in enumerate(ordered)
        if isinstance(t, Spectrum) and key not in others
    ]
    if lengths:
        records.append(Record(TRANSFORM, CRITICAL, write_lengths(lengths)))
    types = [
        (key, t.number)
        for key, t in enumerate(TYPE_NAMED[t.dtype] for t in ordered)
        if isinstance(t, RecordType)
    ]
    if types:
        records.append(Record(TYPES, CRITICAL, write_types(types)))
    if tag:
        records.append(Record(TAG, 0, tag))
    records.sort(key=lambda record: record.type)
    rows = []
    for n, part in enumerate(parts):
        its_index: Index = index[n] if isinstance(index, (list, tuple)) else index  # type: ignore[assignment]
        its_value: ValueWriter = value[n] if isinstance(value, (list, tuple)) else value  # type: ignore[assignment]
        rows.append(_encode_row(part, its_index, its_value, seed))
    least = 1 if types or vectors else 0
    block = write_extension_block(records) if records else b""
    return assemble(rows, block, minor=least if minor is None else minor, flags=flags)


def _stored_type(domain: int, dtype: ElementType) -> ElementType:
    """Return the type of an entry's values: that of coefficients, or of the tensor's elements."""
    return stored_type(domain, dtype) if isinstance(dtype, Format) else dtype


def _size(t: Tensor | Spectrum) -> int:
    return math.prod(t.shape)


def _split_chunks(key: int, t: Tensor | Spectrum, n: int) -> list[_Chunk]:
    dtype = TYPE_NAMED[t.dtype]
    domain = t.domain if isinstance(t, Spectrum) else PLAIN
    size = n if domain == PLAIN else coefficient_count(domain, n)
    most = CHUNK // COMPONENTS[domain]
    itemsize = _stored_type(domain, dtype).itemsize * COMPONENTS[domain]
    parts = []
    for base in range(0, max(size, 1), most):
        d = min(most, size - base)
        where = [n for n, i in enumerate(t.indices) if base <= i < base + d]
        first, end = (where[0], where[-1] + 1) if where else (0, 0)
        local = [i - base for i in t.indices[first:end]]
        values = t.values[first * itemsize : end * itemsize]
        parts.append(_Chunk(key, base, d, dtype, local, values, domain))
    return parts


def _fuse(group: Sequence[int], ordered: Sequence[Tensor | Spectrum]) -> _Chunk:
    members = [ordered[key] for key in group]
    indices: list[int] = []
    d = 0
    for t in members:
        indices += [d + i for i in t.indices]
        d += _size(t)
    values = b"".join(t.values for t in members)
    return _Chunk(group[0], 0, d, TYPE_NAMED[members[0].dtype], indices, values)


def _encode_row(part: _Chunk, index: Index, value: ValueWriter, seed: int) -> Row:
    r = len(part.indices)
    writer = NAMED[index] if isinstance(index, str) else index
    dtype = _stored_type(part.domain, part.dtype)
    row = Row(part.key, part.base, part.d, r, part.dtype.id | part.domain << 4, writer.id, value.id)
    stream = mix(seed, part.key, part.base)
    if 0 < r < part.d and isinstance(writer, Bloom):
        row.index_section, decoded = writer.approximate(part.indices, part.d, stream)
        if decoded is not None:
            part.values, row.r = _gather_values(part, decoded), len(decoded)
            row.index_section = row.index_section if row.r < part.d else b""
    elif 0 < r < part.d:
        row.index_section = writer.write_section(part.indices, part.d)
    values = part.values
    if getattr(value, "ordered", False):
        assert isinstance(dtype, Format)
        positions = sort_positions(values, dtype)
        row.map, row.map_section = PACKED, write_packed(positions)
        values = gather(values, positions, dtype)
    if row.r:
        row.value_section = value.write_section(values, dtype, stream)
    return row


def _gather_values(part: _Chunk, decoded: Sequence[int]) -> bytes:
    """Return the elements' bytes at other indices than the chunk's: 0 for each element that is not stored."""
    width = _stored_type(part.domain, part.dtype).itemsize * COMPONENTS[part.domain]
    stored = {i: part.values[n * width : (n + 1) * width] for n, i in enumerate(part.indices)}
    return b"".join(stored.get(i, bytes(width)) for i in decoded)
