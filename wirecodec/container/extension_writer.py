"""Writing of the extension block: names, shapes, shared entries, transforms, tag (formats/SPEC.md, 2.3, 3).

``extension_reader`` reads it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.based import BASE
from wirecodec.errors import EncodeError

FUSED, NAMES, SHAPES, TRANSFORM, TAG = 1, 2, 3, 4, 5
TYPES, META, SCHEMA, SEMANTICS, JOINED = 6, 7, 8, 9, 10
FLAGS = {FUSED: 1, NAMES: 0, SHAPES: 0, TRANSFORM: 1, TAG: 0}
"""Flags of the record types of version 1.0."""
LATER = {TYPES: 1, META: 0, SCHEMA: 0, SEMANTICS: 1, JOINED: 1}
"""Flags with which record types of later versions are known; with others they are unknown, as in 1.0."""
HEAD = struct.Struct("<II")
RECORD = struct.Struct("<HHI")
ROW = struct.Struct("<IBBH")
LENGTH = np.dtype([("key", "<u4"), ("reserved", "<u4"), ("size", "<u8")])
TYPE = np.dtype([("key", "<u4"), ("number", "<u2"), ("reserved", "<u2")])
MEMBER = np.dtype([("first", "<u4"), ("key", "<u4"), ("size", "<u8")])
MAX_NDIM = 32
MAX_PRODUCT = 2**56


@dataclass(frozen=True)
class Extension:
    """Content of an extension block.

    Attributes:
        names: the tensors' names in the order of their keys, or None.
        shapes: {key: shape} of the tensors that are not 1-d.
        groups: the fused entries, each an (n, 2) array of (key, size) per member, the entry's key first.
        lengths: {key: number of elements} of the tensors stored as coefficients.
        tag: the application's bytes.
        types: {key: number} of the tensors whose element type is in the record of types.
        joined: the vectors of several tensors that are transformed as one; rows as those of ``groups``.
    """

    names: tuple[str, ...] | None = None
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    groups: tuple[Array, ...] = ()
    lengths: Mapping[int, int] = field(default_factory=dict)
    tag: bytes = b""
    types: Mapping[int, int] = field(default_factory=dict)
    joined: tuple[Array, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the block has no record."""
        records = self.names, self.shapes, self.groups, self.lengths, self.tag, self.types, self.joined
        return not any(records)


def digits(n: int) -> Iterator[str]:
    """Name the keys 0 … n-1 by their decimal digits, with leading zeros, so that names ascend as keys do."""
    width = len(str(n - 1))
    return (str(key).zfill(width) for key in range(n))


def check_shape(dims: Sequence[int]) -> None:
    """Raise EncodeError if the wire format cannot hold a shape."""
    if len(dims) > MAX_NDIM:
        raise EncodeError(f"shape has {len(dims)} dimensions; it must have at most {MAX_NDIM}")
    if math.prod([n for n in dims if n]) > MAX_PRODUCT:
        raise EncodeError(f"shape is {tuple(dims)}; the product of its dimensions must be at most 2^56")


def pad8(n: int) -> int:
    """Count the bytes from n to the next multiple of 8."""
    return -n & 7


def write(extension: Extension, others: Mapping[int, bytes] = {}) -> bytes:
    """Write an extension block with further records; return no bytes if it has no content."""
    if extension.is_empty and not others:
        return b""
    bodies = {
        FUSED: _fused_body(extension.groups),
        NAMES: _names_body(extension.names),
        SHAPES: _shapes_body(extension.shapes),
        TRANSFORM: _transform_body(extension.lengths),
        TAG: extension.tag,
        TYPES: _types_body(extension.types),
        JOINED: _joined_body(extension.joined),
        **others,
    }
    return write_records(bodies)


def write_records(bodies: Mapping[int, bytes]) -> bytes:
    """Write a block of the records that are not empty; return no bytes if there is none.

    Private records are not critical.
    """
    records = [
        RECORD.pack(kind, {**FLAGS, **LATER, BASE: 1}.get(kind, 0), len(body)) + body + bytes(-len(body) & 7)
        for kind, body in bodies.items()
        if body
    ]
    if not records:
        return b""
    return HEAD.pack(HEAD.size + sum(map(len, records)), len(records)) + b"".join(records)


def write_model(
    names: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    lengths: Mapping[int, int],
    tag: bytes,
    *,
    names_stored: bool,
    groups: Sequence[Array] = (),
    types: Mapping[int, int] = {},
    joined: Sequence[Array] = (),
) -> bytes:
    """Write the extension block of a model.

    Args:
        names: of all tensors, in the order of their keys.
        shapes: of all tensors.
        lengths: {key: number of elements} of the tensors stored as coefficients.
        tag: the application's bytes.
        names_stored: False to leave the names out.
        groups: rows (key, size) of the members of each shared entry.
        types, joined: as for ``Extension``.

    Raises EncodeError, which names the tensor, if the format cannot hold a shape or a name.
    """
    return write_records(
        {
            FUSED: _fused_body(groups) if groups else b"",
            NAMES: _names_body(names) if names_stored else b"",
            SHAPES: _checked_shapes_body(names, shapes),
            TRANSFORM: _transform_body(lengths) if lengths else b"",
            TAG: tag,
            TYPES: _types_body(types) if types else b"",
            JOINED: _joined_body(joined) if joined else b"",
        }
    )


def minor_of(block: bytes) -> int:
    """Return the lowest minor version that defines the records of a block of this process."""
    at = HEAD.size
    while at < len(block):
        kind, _, length = RECORD.unpack_from(block, at)
        if kind in LATER or kind == BASE:
            return 1
        at += RECORD.size + (length + 7 & -8)
    return 0


@lru_cache(maxsize=64)
def _checked_shapes_body(names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> bytes:
    """Return the body of all tensors' shapes, which are the same in every step of a training."""
    for name, shape in zip(names, shapes, strict=True):
        try:
            check_shape(shape)
        except EncodeError as error:
            raise error.of(name) from None
    return _shapes_body({key: shape for key, shape in enumerate(shapes) if len(shape) != 1})


def _fused_body(groups: Sequence[Array]) -> bytes:
    if not groups:
        return b""
    parts = [HEAD.pack(len(groups), 0)]
    for group in groups:
        parts += [HEAD.pack(int(group[0, 0]), len(group)), group.astype("<u4").tobytes()]
    return b"".join(parts)


@lru_cache(maxsize=64)
def _names_body(names: tuple[str, ...] | None) -> bytes:
    if not names:
        return b""
    encoded = [name.encode() for name in names]
    for name, text in zip(names, encoded, strict=True):
        if len(text) > 0xFFFF:
            raise EncodeError(f"a name has {len(text)} bytes; it must have at most 65535", tensor=name[:40])
    return struct.pack(f"<I{len(encoded)}H", len(encoded), *map(len, encoded)) + b"".join(encoded)


def _shapes_body(shapes: Mapping[int, tuple[int, ...]]) -> bytes:
    parts = []
    for key, dims in sorted(shapes.items()):
        width = dimension_bytes(dims)
        parts.append(ROW.pack(key, len(dims), width, 0) + b"".join(n.to_bytes(width, "little") for n in dims))
    return b"".join(parts)


def _transform_body(lengths: Mapping[int, int]) -> bytes:
    return np.array([(key, 0, size) for key, size in sorted(lengths.items())], LENGTH).tobytes()


def _types_body(types: Mapping[int, int]) -> bytes:
    return np.array([(key, number, 0) for key, number in sorted(types.items())], TYPE).tobytes()


def _joined_body(vectors: Sequence[Array]) -> bytes:
    rows = [(int(members[0, 0]), key, size) for members in vectors for key, size in members.tolist()]
    return np.array(rows, MEMBER).tobytes()


def dimension_bytes(dims: Sequence[int]) -> int:
    """Return the bytes per dimension of a shape: 1, 2, 4 or 8."""
    needed = -(-max(dims, default=0).bit_length() // 8) or 1
    return 1 << (needed - 1).bit_length()
