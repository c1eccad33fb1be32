"""From entries to tensors: SPEC section 3, rows 31-44 of section 7.

``locate_tensors`` finds the tensors and the elements of each. ``assemble_tensors`` inverts transforms and
joins the decoded chunks of each tensor. A full support is always a ``range``, so a large one takes no memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from formats.reference.annotations import (
    ZERO,
    Meta,
    check_meta,
    check_semantics,
    compute_digest,
    read_digest,
    read_meta,
    read_semantics,
)
from formats.reference.element_types import UNKNOWN, ElementType, check_types, read_types
from formats.reference.errors import Invalid, LimitExceeded, Malformed, SchemaMismatch
from formats.reference.extension import (
    FUSED,
    JOINED,
    META,
    NAMES,
    SCHEMA,
    SEMANTICS,
    SHAPES,
    TAG,
    TRANSFORM,
    TYPES,
)
from formats.reference.floats import BY_ID, Format
from formats.reference.limits import Limits, Schema
from formats.reference.records import (
    Group,
    check_joined,
    check_names,
    check_shapes,
    read_fused,
    read_joined,
    read_names,
    read_shapes,
)
from formats.reference.table import CHUNK, Entry
from formats.reference.transform.coefficients import COMPONENTS, PLAIN, check_lengths, read_lengths
from formats.reference.transform.inverse import invert


@dataclass
class Tensor:
    """Sparse tensor: its support, and the little-endian bits of one value for each element of it.

    ``absent`` is the meaning of the other elements: "zero", or "unchanged" for a patch (SPEC section 3.9).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    indices: Sequence[int]
    values: bytes
    absent: str = ZERO


@dataclass
class Decoded:
    """Content of a container; ``digest`` is that of its schema, b"" if it has none."""

    tensors: list[Tensor]
    tag: bytes
    meta: Meta = field(default_factory=Meta)
    digest: bytes = b""


@dataclass
class TensorLocation:
    """Location of a tensor's elements: ``size`` elements from ``start`` on, in the chunks of ``entry_key``.

    In a domain other than 0, the chunks hold the coefficients of the tensor, or of the vector that it is
    joined to. The elements are those after the inverse transform.
    """

    entry_key: int
    start: int
    size: int
    dtype: ElementType
    domain: int = PLAIN
    name: str = ""
    shape: tuple[int, ...] = ()
    absent: str = ZERO


def locate_tensors(
    entries: list[Entry],
    records: dict[int, bytes],
    schema: Schema | None,
    limits: Limits,
    *,
    single: bool = False,
) -> tuple[list[TensorLocation], Meta]:
    """Make the checks of rows 31-44a; return the tensors in the order of their keys, and the metadata.

    Args:
        entries: the table, checked (rows 14-27).
        records: the bodies of the known records by type.
        schema: what the caller expects, or None.
        limits: limits of the caller.
        single: whether the caller asked for exactly one tensor; the name in the schema is then not compared.

    Raises:
        WireError: for the first check that fails; Malformed, LimitExceeded, Invalid or SchemaMismatch.
    """
    by_key = _locate_by_table(entries)
    groups = read_fused(records[FUSED]) if FUSED in records else []  # 31
    joined = read_joined(records[JOINED]) if JOINED in records else []  # 31a
    others = sum(len(members) - 1 for _, members in groups) + sum(key != first for first, key, _ in joined)
    if len(entries) + others > limits.max_entries:
        raise LimitExceeded("max-entries", f"{len(entries)} entries and {others} further members")  # 32
    _locate_fused(by_key, entries, groups)  # 33
    vectors = check_joined(joined)  # 33a
    _locate_joined(by_key, vectors)  # 33a
    n = len(by_key)
    if any(key >= n for key in by_key):  # n distinct keys below n are 0 … n-1
        raise Invalid("keys", f"the keys of {n} tensors are not 0 … {n - 1}")  # 34
    places = [by_key[key] for key in range(n)]
    lengths = read_lengths(records[TRANSFORM]) if TRANSFORM in records else []  # 35
    coefficients = {
        key: (p.domain, p.size) for key, p in enumerate(places) if p.domain != PLAIN and p.entry_key == key
    }
    for key, size in check_lengths(lengths, coefficients).items():  # 36
        places[key].size = size
    _divide(places, vectors)  # 36
    rows = read_types(records[TYPES]) if TYPES in records else []  # 36a
    entry_keys = {key: p.entry_key for key, p in enumerate(places) if p.dtype is UNKNOWN}
    for key, dtype in check_types(rows, entry_keys).items():  # 36b, 36c
        places[key].dtype = dtype
    names = None
    if NAMES in records:
        names = check_names(read_names(records[NAMES]), n)  # 37, 38
    shapes = {}
    if SHAPES in records:
        shapes = check_shapes(read_shapes(records[SHAPES]), [p.size for p in places])  # 39, 40
    if TAG in records and not records[TAG]:
        raise Malformed("tag-record", "the tag is empty")  # 41
    meta = check_meta(read_meta(records[META]), n) if META in records else Meta()  # 41a, 41b
    digest = read_digest(records[SCHEMA], named=NAMES in records) if SCHEMA in records else b""  # 41c, 41d
    meanings = read_semantics(records[SEMANTICS]) if SEMANTICS in records else []  # 41e, 41f
    for key, absent in check_semantics(meanings, [p.domain for p in places]).items():  # 41g
        places[key].absent = absent
    for key, p in enumerate(places):
        p.shape = shapes.get(key, (p.size,))
    if single:
        if n != 1:
            raise SchemaMismatch("schema-count", f"{n} tensors; the caller asked for one")  # 42a
        _assign_names(places, names, None)
        schema = schema and {places[0].name: next(iter(schema.values()))}
    else:
        _assign_names(places, names, schema)  # 42b
    if schema is not None:
        for p in places:
            if p.shape != tuple(schema[p.name][0]):
                raise SchemaMismatch("schema-shape", f"{p.name!r} has shape {p.shape}")  # 43
        for p in places:
            if p.dtype.name != schema[p.name][1]:
                raise SchemaMismatch("schema-dtype", f"{p.name!r} is {p.dtype.name}")  # 44
        if digest and not single and digest != compute_digest(schema):
            raise SchemaMismatch("schema-digest", "the names are not the schema's")  # 44a
    return places, meta


def _locate_by_table(entries: list[Entry]) -> dict[int, TensorLocation]:
    """Locate the tensors that the table alone describes."""
    by_key: dict[int, TensorLocation] = {}
    for entry in entries:
        if entry.key not in by_key:
            by_key[entry.key] = TensorLocation(entry.key, 0, 0, BY_ID.get(entry.dtype, UNKNOWN), entry.domain)
        by_key[entry.key].size += entry.d
    return by_key


def _locate_fused(
    by_key: dict[int, TensorLocation], entries: list[Entry], groups: list[tuple[int, Group]]
) -> None:
    """Make the checks of row 33; add the locations of the members of fused entries."""
    chunks: dict[int, int] = {}
    for entry in entries:
        chunks[entry.key] = chunks.get(entry.key, 0) + 1
    last_group = -1
    for entry_key, members in groups:
        if entry_key <= last_group:
            raise Invalid("fused", "the groups are not ascending")
        last_group = entry_key
        if members[0][0] != entry_key:
            raise Invalid("fused", f"the first member of group {entry_key} is {members[0][0]}")
        if chunks.get(entry_key) != 1:
            raise Invalid("fused", f"key {entry_key} has {chunks.get(entry_key, 0)} entries")
        whole = by_key[entry_key]
        if whole.domain != PLAIN:
            raise Invalid("fused", f"key {entry_key} is stored as coefficients")
        start = 0
        last = -1
        for key, size in members:
            if key <= last:
                raise Invalid("fused", f"the members of group {entry_key} are not ascending")
            last = key
            if key != entry_key and key in by_key:
                raise Invalid("fused", f"key {key} occurs twice")
            by_key[key] = TensorLocation(entry_key, start, size, whole.dtype)
            start += size
        if start != whole.size:
            raise Invalid("fused", f"the members of group {entry_key} have {start} of {whole.size} elements")


def _locate_joined(by_key: dict[int, TensorLocation], vectors: dict[int, Group]) -> None:
    """Make the checks of row 33a; add the members of joined vectors, whose sizes ``_divide`` sets."""
    for first, members in vectors.items():
        whole = by_key.get(first)
        if whole is None or whole.domain == PLAIN or whole.entry_key != first:
            raise Invalid("joined", f"key {first} has no entries of coefficients")
        for key, _ in members[1:]:
            if key in by_key:
                raise Invalid("joined", f"key {key} occurs twice")
            by_key[key] = TensorLocation(first, 0, 0, whole.dtype, whole.domain)


def _divide(places: list[TensorLocation], vectors: dict[int, Group]) -> None:
    """Make the check of row 36 for joined vectors; divide their elements among the members."""
    for first, members in vectors.items():
        if sum(size for _, size in members) != places[first].size:
            raise Invalid(
                "transform", f"the members of vector {first} do not have {places[first].size} elements"
            )
        start = 0
        for key, size in members:
            places[key].start, places[key].size = start, size
            start += size


def _assign_names(places: list[TensorLocation], names: list[str] | None, schema: Schema | None) -> None:
    """Make the check of row 42b; without a names record, use the schema's names or the keys in decimal."""
    if names is None:
        width = len(str(len(places) - 1))
        names = [str(key).zfill(width) for key in range(len(places))]
        if schema is not None:
            names = sorted(schema, key=lambda name: name.encode("utf-8"))
    if len(names) != len(places) or (schema is not None and set(names) != set(schema)):
        raise SchemaMismatch(
            "schema-names", f"{len(places)} tensors; their names or number are not the schema's"
        )
    for p, name in zip(places, names, strict=True):
        p.name = name


Chunk = tuple[Sequence[int], bytes]
"""Indices of a decoded chunk, counted from its base, and its values."""


def assemble_tensors(places: list[TensorLocation], chunks: dict[int, list[Chunk]]) -> list[Tensor]:
    """Build the tensors at these locations from the decoded chunks of each entry's key."""
    sizes: dict[int, int] = {}
    for p in places:
        sizes[p.entry_key] = sizes.get(p.entry_key, 0) + p.size
    transformed = {p.entry_key: p for p in places if p.domain != PLAIN}
    elements = {key: [_invert(p, sizes[key], chunks[key])] for key, p in transformed.items()}
    plain = chunks | elements
    return [_assemble_tensor(p, plain[p.entry_key]) for p in places]


def _invert(p: TensorLocation, n: int, chunks: list[Chunk]) -> Chunk:
    """Invert the transform of n elements; none is present if no coefficient is."""
    assert isinstance(p.dtype, Format)
    most = CHUNK // COMPONENTS[p.domain]
    indices = [number * most + i for number, (local, _) in enumerate(chunks) for i in local]
    if n and not indices:
        return [], b""
    return range(n), invert(p.domain, n, p.dtype, indices, b"".join(values for _, values in chunks))


def _assemble_tensor(p: TensorLocation, chunks: list[Chunk]) -> Tensor:
    """Build the tensor at a location from the decoded chunks of its entry."""
    indices: Sequence[int]
    if len(chunks) > 1:
        values = b"".join(values for _, values in chunks)
        if sum(len(local) for local, _ in chunks) == p.size:
            indices = range(p.size)
        else:
            indices = [number * CHUNK + i for number, (local, _) in enumerate(chunks) for i in local]
        return Tensor(p.name, p.dtype.name, p.shape, indices, values, p.absent)
    local, values = chunks[0]
    first, end = bisect_left(local, p.start), bisect_left(local, p.start + p.size)
    indices = range(end - first) if isinstance(local, range) else [i - p.start for i in local[first:end]]
    values = values[first * p.dtype.itemsize : end * p.dtype.itemsize]
    return Tensor(p.name, p.dtype.name, p.shape, indices, values, p.absent)
