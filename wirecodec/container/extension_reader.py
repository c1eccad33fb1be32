"""Reading of the extension block: its checks, and iterators over its content (formats/SPEC.md, 2.3, 3, 7).

A block may describe very many tensors, and the payload is checked after it. So its content is not converted
to objects up front. Iterators yield them one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import Array, integers
from wirecodec.container.annotations import (
    check_digest,
    check_meta,
    check_semantics,
    read_meta,
    read_patches,
)
from wirecodec.container.content import (
    check_names,
    check_rows,
    fit_sizes,
    is_short,
    read_names,
    read_rows,
    walk_rows,
)
from wirecodec.container.extension_writer import (
    FUSED,
    HEAD,
    JOINED,
    LENGTH,
    MAX_PRODUCT,
    MEMBER,
    META,
    NAMES,
    SCHEMA,
    SEMANTICS,
    SHAPES,
    TAG,
    TRANSFORM,
    TYPE,
    TYPES,
)
from wirecodec.container.records import find_record_bodies
from wirecodec.element_types import RECORD_DTYPES
from wirecodec.errors import Invalid, LimitExceeded, Malformed, Unsupported
from wirecodec.registry import transform


@dataclass(frozen=True, eq=False)
class Spans:
    """The table's entries by key.

    Attributes:
        keys: (n,) u32, ascending.
        starts: (n,) i64, number of each key's first entry.
        chunks: (n,) i64, entries per key.
        sizes: (n,) i64, elements per key; coefficients if the domain is not 0.
        domains: (n,) u8.
        typed: (n,) bool, whether the record of types has the element type; None if it has none.
    """

    keys: Array
    starts: Array
    chunks: Array
    sizes: Array
    domains: Array
    typed: Array | None = None

    def find(self, key: int) -> int | None:
        """Return a key's position in ``keys``, or None."""
        at = int(np.searchsorted(self.keys, np.uint32(key)))  # another type would convert all keys
        return at if at < self.keys.size and self.keys[at] == key else None


@dataclass(frozen=True, eq=False)
class ExtensionReader:
    """Reader of a checked extension block.

    Attributes:
        bodies: of its known records by type; empty without a block.
        is_kept: whether names and shapes are short enough to be kept as objects.
    """

    bodies: Mapping[int, memoryview]
    is_kept: bool = False

    @property
    def tag(self) -> bytes:
        """The application's bytes."""
        return bytes(self.bodies.get(TAG, b""))

    @property
    def is_named(self) -> bool:
        """True if tensors have names."""
        return NAMES in self.bodies

    @property
    def is_fused(self) -> bool:
        """True if there are fused entries."""
        return FUSED in self.bodies

    @property
    def is_joined(self) -> bool:
        """True if several tensors are transformed as one vector."""
        return JOINED in self.bodies

    @property
    def is_transformed(self) -> bool:
        """True if a tensor is stored as coefficients."""
        return TRANSFORM in self.bodies

    @property
    def digest(self) -> bytes:
        """Return the digest of the schema, or no bytes if the container has none."""
        return bytes(self.bodies.get(SCHEMA, b""))

    def meta(self) -> Iterator[tuple[int, str, str]]:
        """Yield (key, name, value) of the metadata."""
        return read_meta(self.bodies[META]) if META in self.bodies else iter(())

    def patches(self) -> Sequence[int]:
        """Return the keys of the tensors whose absent elements are unchanged, ascending."""
        keys: list[int] = read_patches(self.bodies[SEMANTICS]).tolist() if SEMANTICS in self.bodies else []
        return keys

    def names(self) -> Iterator[str]:
        """Yield the tensors' names in the order of their keys."""
        return read_names(self.bodies[NAMES], kept=self.is_kept)

    def shapes(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield (key, shape) of the tensors that are not 1-d."""
        return read_rows(self.bodies[SHAPES], kept=self.is_kept) if SHAPES in self.bodies else iter(())

    def groups(self) -> Iterator[Array]:
        """Yield each fused entry as (n, 2) u32: (key, size) per member, the entry's key first."""
        return _groups(_pairs(self.bodies[FUSED])) if self.is_fused else iter(())

    def joined(self) -> Iterator[Array]:
        """Yield each joined vector as (n, 2) u64: (key, size) per member, the key of its entries first."""
        if not self.is_joined:
            return
        rows = np.frombuffer(self.bodies[JOINED], MEMBER)
        members = np.column_stack([rows["key"], rows["size"]])
        for a, b in pairwise(integers(np.append(_vector_starts(rows), rows.size))):
            yield members[a:b]

    def lengths(self) -> Iterator[tuple[int, int]]:
        """Yield (key, number of elements) of the tensors, or joined vectors, stored as coefficients."""
        if not self.is_transformed:
            return iter(())
        rows = np.frombuffer(self.bodies[TRANSFORM], LENGTH)
        return zip(integers(rows["key"]), integers(rows["size"]), strict=True)

    def types(self) -> dict[int, int]:
        """Return {key: number} of the tensors whose element type is in the record of types."""
        if TYPES not in self.bodies:
            return {}
        rows = np.frombuffer(self.bodies[TYPES], TYPE)
        return dict(zip(rows["key"].tolist(), rows["number"].tolist(), strict=True))

    def sharing(self) -> Iterator[Array]:
        """Yield (key, size) of the tensors of each fused entry, and of each joined vector."""
        return chain(self.groups(), self.joined())

    def sizes(self, spans: Spans) -> Array:
        """Return the number of elements of each tensor, (n,) i64 by key."""
        sizes = np.empty(self.count(spans), np.int64)
        sizes[spans.keys] = spans.sizes
        for group in self.groups():
            sizes[group[:, 0]] = group[:, 1]
        for key, size in self.lengths():
            sizes[key] = size
        joined = np.frombuffer(self.bodies.get(JOINED, b""), MEMBER)
        sizes[joined["key"]] = joined["size"]
        return sizes

    def count(self, spans: Spans) -> int:
        """Count the tensors."""
        joined = np.frombuffer(self.bodies.get(JOINED, b""), MEMBER)
        return (
            int(spans.keys.size)
            + sum(len(group) - 1 for group in self.groups())
            + int(np.count_nonzero(joined["key"] != joined["first"]))
        )

    def transformed(self, spans: Spans) -> Array:
        """Return the keys of the tensors stored as coefficients, (n,) u32; those of joined vectors last."""
        joined = np.frombuffer(self.bodies.get(JOINED, b""), MEMBER)
        return np.concatenate([spans.keys[spans.domains > 0], joined["key"]])


def read(block: memoryview, start: int, spans: Spans, max_entries: int) -> ExtensionReader:
    """Check an extension block: rows 28 to 41g of section 7, in their order.

    Args:
        block: the block's bytes; empty if the container has none.
        start: the block's offset in the container, for messages.
        spans: the table's entries by key.
        max_entries: bound on entries; each member of a fused entry or a joined vector after its first counts
            as one.

    Returns:
        The reader of its content.

    Raises:
        WireError: a check fails.
    """
    extension = ExtensionReader(find_record_bodies(block, start) if block else {})
    keys = spans.keys
    if extension.is_fused or extension.is_joined:
        keys = _check_members(extension, spans, max_entries)
    if keys.size and (keys != np.arange(keys.size, dtype=np.uint32)).any():
        raise Invalid("keys", "the tensors' keys are not 0, 1, 2, …")
    _check_lengths(extension, spans)
    _check_types(extension, spans)
    shares = extension.is_fused or extension.is_joined
    if not shares and is_short(extension.bodies.get(NAMES), extension.bodies.get(SHAPES), keys.size):
        extension = replace(extension, is_kept=True)
    if extension.is_named:
        check_names(extension.bodies[NAMES], keys.size, kept=extension.is_kept)
    if SHAPES in extension.bodies:
        _check_shapes(extension, spans)
    if TAG in extension.bodies and not extension.tag:
        raise Malformed("tag-record", "the tag is empty")
    if META in extension.bodies:
        check_meta(extension.bodies[META], keys.size)
    if SCHEMA in extension.bodies:
        check_digest(extension.bodies[SCHEMA], is_named=extension.is_named)
    if SEMANTICS in extension.bodies:
        check_semantics(extension.bodies[SEMANTICS], keys.size, extension.transformed(spans))
    return extension


def _pairs(body: memoryview) -> Array:
    """View the fused record as (n, 2) u32."""
    if len(body) < HEAD.size or len(body) % HEAD.size:
        raise Malformed("fused-record", f"{len(body)} bytes are not a sequence of pairs")
    return np.frombuffer(body, "<u4").reshape(-1, 2)


def _group_starts(pairs: Array) -> Iterator[int]:
    """Yield the positions of the pairs that begin a group; raise Malformed if one does not fit."""
    words = pairs.reshape(-1).data  # reading single elements is twice as fast as from an array
    at = 1
    while at < len(pairs):
        members = words[2 * at + 1]
        if members < 2 or at + 1 + members > len(pairs):
            raise Malformed("fused-record", f"a group of {members} members")
        yield at
        at += 1 + members


def _groups(pairs: Array) -> Iterator[Array]:
    """Yield the members of each group."""
    return (pairs[at + 1 : at + 1 + int(pairs[at, 1])] for at in _group_starts(pairs))


def _check_members(extension: ExtensionReader, spans: Spans, max_entries: int) -> Array:
    """Check the fused record and the joined one: rows 31 to 33a; return all keys, (n,) u32 ascending."""
    pairs, starts = np.empty((1, 2), np.uint32), np.empty(0, np.int64)
    if extension.is_fused:
        pairs, starts = _read_fused(extension.bodies[FUSED])
    rows = _read_rows(extension, JOINED, MEMBER, "joined-record")
    others = rows["key"][rows["key"] != rows["first"]]
    n = int(spans.chunks.sum()) + len(pairs) - 1 - 2 * starts.size + others.size
    if n > max_entries:
        raise LimitExceeded("max-entries", f"{n} entries and further members; the limit is {max_entries}")
    keys = _check_fused(pairs, starts, spans)
    if rows.size:
        _check_joined(rows, spans)
        keys = _add_keys("joined", keys, others)
    return keys


def _read_fused(body: memoryview) -> tuple[Array, Array]:
    """Check the body of the fused record; return its pairs (n, 2) u32, and the places of the groups."""
    pairs = _pairs(body)
    count, reserved = pairs[0].tolist()
    if count == 0 or reserved:
        raise Malformed("fused-record", f"{count} groups, reserved word {reserved}")
    starts = np.fromiter(_group_starts(pairs), np.int64)
    if starts.size != count:
        raise Malformed("fused-record", f"{starts.size} groups; its count is {count}")
    return pairs, starts


def _check_fused(pairs: Array, starts: Array, spans: Spans) -> Array:
    """Check the groups of the fused record; return the keys of table and groups, (n,) u32 ascending."""
    before = -1
    for key, group in zip(integers(pairs[starts, 0]), _groups(pairs), strict=True):
        if key <= before or group[0, 0] != key or (group[1:, 0] <= group[:-1, 0]).any():
            raise Invalid("fused", f"the group of entry {key} is out of order")
        at = spans.find(key)
        if (
            at is None
            or (spans.chunks[at], spans.domains[at]) != (1, 0)
            or spans.sizes[at] != group[:, 1].sum(dtype=np.int64)
        ):
            raise Invalid("fused", f"entry {key} is not one plain chunk of its members' size")
        before = key
    others = np.ones(len(pairs), bool)
    others[0] = others[starts] = others[starts + 1] = False
    return _add_keys("fused", spans.keys, pairs[others, 0])


def _add_keys(code: str, keys: Array, others: Array) -> Array:
    """Return all keys in ascending order; raise Invalid with this code if one occurs twice."""
    if not others.size:
        return keys
    joined: Array = np.concatenate([keys, others])
    joined.sort()
    if (joined[1:] == joined[:-1]).any():
        raise Invalid(code, "a member is elsewhere, too")
    return joined


def _vector_starts(rows: Array) -> Array:
    """Return the places of the first members of joined vectors, (n,) i64."""
    return np.flatnonzero(np.append(True, rows["first"][1:] != rows["first"][:-1]))


def _check_joined(rows: Array, spans: Spans) -> None:
    """Check the order of the joined record, its vectors, and the entries of these."""
    first, key = rows["first"].astype(np.int64), rows["key"].astype(np.int64)
    ascends = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (key[1:] > key[:-1]))
    starts = _vector_starts(rows)
    counts = np.diff(np.append(starts, rows.size))
    if not ascends.all() or (counts < 2).any() or (key[starts] != first[starts]).any():
        raise Invalid("joined", "the rows do not ascend, or a vector has one member or another first key")
    places = np.searchsorted(spans.keys, rows["first"][starts])
    inside = places < spans.keys.size
    places[~inside] = 0
    if not inside.all() or (spans.keys[places] != first[starts]).any() or (spans.domains[places] == 0).any():
        raise Invalid("joined", "a vector has no entries of coefficients")


def _read_rows(extension: ExtensionReader, record: int, row: np.dtype[Any], code: str) -> Array:
    """Return the rows of a record, or none if it is absent; reserved fields must be 0."""
    if record not in extension.bodies:
        return np.empty(0, row)
    body = extension.bodies[record]
    if not body or len(body) % row.itemsize:
        raise Malformed(code, f"{len(body)} bytes are not rows of {row.itemsize}")
    rows = np.frombuffer(body, row)
    if "reserved" in (row.names or ()) and rows["reserved"].any():
        raise Malformed(code, "a reserved field is not 0")
    return rows


def _check_lengths(extension: ExtensionReader, spans: Spans) -> None:
    """Check the transform record against the tensors stored as coefficients."""
    if not extension.is_transformed and not spans.domains.any():
        return
    keys = _read_rows(extension, TRANSFORM, LENGTH, "transform-record")["key"]
    places = np.flatnonzero(spans.domains)
    if keys.size != places.size or (keys != spans.keys[places]).any():
        raise Invalid("transform", "the rows do not match the tensors stored as coefficients")
    for at, (key, size) in zip(integers(places), extension.lengths(), strict=True):
        count, applied = int(spans.sizes[at]), transform(int(spans.domains[at]))
        # The first comparison bounds the number before ``count`` computes with it.
        if size > count * applied.width or applied.count(size) != count:
            raise Invalid(
                "transform", f"tensor {key} has {count} coefficients, which {size} elements do not make"
            )
    lengths = extension.lengths()
    for members in extension.joined():
        total, first = sum(integers(members[:, 1])), int(members[0, 0])
        length = _find_length(lengths, first)
        if total != length:
            raise Invalid(
                "transform", f"the members of vector {first} have {total} elements; it has {length}"
            )


def _find_length(lengths: Iterator[tuple[int, int]], wanted: int) -> int:
    """Return the number of elements of a key, which is among the next rows."""
    return next(size for key, size in lengths if key == wanted)


def _check_types(extension: ExtensionReader, spans: Spans) -> None:
    """Check the record of types against the tensors that need it: rows 36a to 36c."""
    if TYPES not in extension.bodies and spans.typed is None:
        return
    rows = _read_rows(extension, TYPES, TYPE, "types-record")
    typed = set() if spans.typed is None else set(spans.keys[spans.typed].tolist())
    groups = [group[:, 0] for group in extension.groups() if int(group[0, 0]) in typed]
    alone = np.array(sorted(typed), np.uint32)
    every = np.sort(np.concatenate([alone, *(keys[1:] for keys in groups)]))
    if rows.size != every.size or (rows["key"] != every).any():
        raise Invalid("types", "the rows do not match the tensors of element type 14")
    for keys in groups:
        numbers = rows["number"][np.searchsorted(every, keys)]
        if (numbers != numbers[0]).any():
            raise Invalid("types", f"the tensors that share the entry of {keys[0]} have different types")
    unknown = ~np.isin(rows["number"], list(RECORD_DTYPES))
    if unknown.any():
        row = rows[unknown.argmax()]
        raise Unsupported("dtype", f"tensor {row['key']} has the unknown element type {row['number']}")


def _check_shapes(extension: ExtensionReader, spans: Spans) -> None:
    """Check the shapes record against the tensors' sizes."""
    sizes = extension.sizes(spans)
    body = extension.bodies[SHAPES]
    if extension.is_kept and fit_sizes(body, sizes):
        return
    before = -1
    for key, dims in walk_rows(body):
        wrong = ""
        if key <= before:
            wrong = "the rows do not ascend"
        elif key >= sizes.size:
            wrong = f"there is no tensor {key}"
        elif sizes[key] != math.prod(dims) or math.prod(n for n in dims if n) > MAX_PRODUCT:
            wrong = f"tensor {key} has {sizes[key]} elements; its shape is {dims}"
        if wrong:  # at most as many rows were read as there are tensors
            check_rows(extension.bodies[SHAPES])
            raise Invalid("shapes", wrong)
        before = key
