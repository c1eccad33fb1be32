"""Reading of the extension block: its checks, and iterators over its content (formats/SPEC.md, 2.3, 3, 7).

A block may describe very many tensors, and the payload is checked after it. So its content is not converted
to objects up front. Iterators yield them one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

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
    keep,
    read_names,
    read_rows,
    walk_rows,
)
from wirecodec.container.extension_writer import (
    FUSED,
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
from wirecodec.container.members import Spans, check_members, find_vectors, read_groups, read_pairs
from wirecodec.container.records import find_record_bodies, view_rows
from wirecodec.element_types import RECORD_DTYPES
from wirecodec.errors import Invalid, Malformed, Unsupported
from wirecodec.registry import transform


@dataclass(frozen=True, eq=False)
class ExtensionReader:
    """Reader of a checked extension block.

    Attributes:
        bodies: of its known records by type; empty without a block.
        is_kept: whether names and shapes are short enough to be kept as objects.
        tensors: number of tensors; None without a block, so that each key of the table is one.
    """

    bodies: Mapping[int, memoryview]
    is_kept: bool = False
    tensors: int | None = None

    def keep(self) -> None:
        """Keep names and shapes, which the next container may have, too. Call it for a valid container."""
        if self.is_kept:
            keep(self.bodies.get(NAMES), self.bodies.get(SHAPES))

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
        return read_groups(read_pairs(self.bodies[FUSED])) if self.is_fused else iter(())

    def joined(self) -> Iterator[Array]:
        """Yield each joined vector as (n, 2) u64: (key, size) per member, the key of its entries first."""
        if not self.is_joined:
            return
        rows = np.frombuffer(self.bodies[JOINED], MEMBER)
        members = np.column_stack([rows["key"], rows["size"]])
        for a, b in pairwise(integers(np.append(find_vectors(rows), rows.size))):
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
        return int(spans.keys.size) if self.tensors is None else self.tensors

    def transformed(self, spans: Spans) -> Array:
        """Return the keys of the tensors stored as coefficients, (n,) u32; those of joined vectors last."""
        joined = np.frombuffer(self.bodies.get(JOINED, b""), MEMBER)
        return np.concatenate([spans.keys[spans.domains > 0], joined["key"]])


def read(
    block: memoryview, start: int, spans: Spans, max_entries: int, *, based: bool = False
) -> ExtensionReader:
    """Check an extension block: rows 28 to 41g of section 7, in their order.

    Args:
        block: the block's bytes; empty if the container has none.
        start: the block's offset in the container, for messages.
        spans: the table's entries by key.
        max_entries: bound on entries; each member of a fused entry or a joined vector after its first counts
            as one.
        based: True to know the record of a patch of weights.

    Returns:
        The reader of its content.

    Raises:
        WireError: a check fails.
    """
    extension = ExtensionReader(find_record_bodies(block, start, based=based) if block else {})
    keys = spans.keys
    if extension.is_fused or extension.is_joined:
        keys = check_members(extension.bodies.get(FUSED), extension.bodies.get(JOINED), spans, max_entries)
    extension = replace(extension, tensors=int(keys.size))
    if keys.size and (keys != np.arange(keys.size, dtype=np.uint32)).any():
        raise Invalid("keys", "the tensors' keys are not 0, 1, 2, …")
    _check_lengths(extension, spans)
    _check_types(extension, spans)
    is_kept = is_short(extension.bodies.get(NAMES), extension.bodies.get(SHAPES), keys.size)
    extension = replace(extension, is_kept=is_kept, tensors=int(keys.size))
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


def _check_lengths(extension: ExtensionReader, spans: Spans) -> None:
    """Check the transform record against the tensors stored as coefficients."""
    if not extension.is_transformed and not spans.domains.any():
        return
    keys = view_rows(extension.bodies.get(TRANSFORM), LENGTH, "transform-record")["key"]
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
    rows = view_rows(extension.bodies.get(TYPES), TYPE, "types-record")
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
