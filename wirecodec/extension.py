"""The extension block: names, shapes, fused and transformed tensors, tag (formats/SPEC.md, 2.3 and 3).

``write`` and ``read`` are inverse. ``read`` makes the checks of section 7, rows 28 to 41, in their order, and
needs of the table only each tensor key's size, chunk count and domain.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError, Invalid, LimitExceeded, Malformed, Unsupported
from wirecodec.registry import transform

__all__ = ["Extension", "Span", "check_shape", "digits", "pad8", "read", "sizes_of", "write"]

FUSED, NAMES, SHAPES, TRANSFORM, TAG = 1, 2, 3, 4, 5
_FLAGS = {FUSED: 1, NAMES: 0, SHAPES: 0, TRANSFORM: 1, TAG: 0}
_HEAD = struct.Struct("<II")
_RECORD = struct.Struct("<HHI")
_ROW = struct.Struct("<IBBH")
_LENGTH = np.dtype([("key", "<u4"), ("reserved", "<u4"), ("size", "<u8")])
_MAX_NDIM = 32
_MAX_PRODUCT = 2**56


class Span(NamedTuple):
    """What the table says of one key: its elements in all, its chunks, and their domain.

    In a domain other than 0 the elements are coefficients.
    """

    size: int
    chunks: int
    domain: int


@dataclass(frozen=True)
class Extension:
    """What the block says.

    Attributes:
        names: of the tensors by key, or None.
        shapes: by key, of the tensors that are not 1-d.
        groups: fused entries, each an (n, 2) array of its members' (key, size), the entry's key first.
        lengths: by key, the elements of the tensors that are stored as coefficients.
        tag: the application's bytes.
    """

    names: tuple[str, ...] | None = None
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    groups: tuple[Array, ...] = ()
    lengths: Mapping[int, int] = field(default_factory=dict)
    tag: bytes = b""


def digits(n: int) -> tuple[str, ...]:
    """Names of the keys 0 … n-1, of as many decimal digits each, so that they ascend as keys do."""
    width = len(str(n - 1))
    return tuple(str(key).zfill(width) for key in range(n))


def check_shape(dims: Sequence[int]) -> None:
    """EncodeError where a shape is not one that the wire format can say."""
    if len(dims) > _MAX_NDIM:
        raise EncodeError(f"{len(dims)} dimensions; at most {_MAX_NDIM} fit")
    if math.prod(n for n in dims if n) > _MAX_PRODUCT:
        raise EncodeError(f"shape {tuple(dims)} is too large for the wire format")


def pad8(n: int) -> int:
    """Bytes from n up to the next multiple of 8."""
    return -n & 7


def write(extension: Extension) -> bytes:
    """The block, or nothing where it has nothing to say."""
    bodies = {
        FUSED: _fused_body(extension.groups),
        NAMES: _names_body(extension.names),
        SHAPES: _shapes_body(extension.shapes),
        TRANSFORM: _transform_body(extension.lengths),
        TAG: extension.tag,
    }
    records = [
        _RECORD.pack(kind, _FLAGS[kind], len(body)) + body + bytes(pad8(len(body)))
        for kind, body in bodies.items()
        if body
    ]
    if not records:
        return b""
    return _HEAD.pack(_HEAD.size + sum(map(len, records)), len(records)) + b"".join(records)


def _fused_body(groups: Sequence[Array]) -> bytes:
    if not groups:
        return b""
    parts = [_HEAD.pack(len(groups), 0)]
    for group in groups:
        parts += [_HEAD.pack(int(group[0, 0]), len(group)), group.astype("<u4").tobytes()]
    return b"".join(parts)


def _names_body(names: Sequence[str] | None) -> bytes:
    if not names:
        return b""
    encoded = [name.encode() for name in names]
    for name, text in zip(names, encoded, strict=True):
        if len(text) > 0xFFFF:
            raise EncodeError(f"a name of {len(text)} bytes; at most 65535 fit", tensor=name[:40])
    return struct.pack(f"<I{len(encoded)}H", len(encoded), *map(len, encoded)) + b"".join(encoded)


def _shapes_body(shapes: Mapping[int, tuple[int, ...]]) -> bytes:
    parts = []
    for key, dims in sorted(shapes.items()):
        width = _width(dims)
        parts.append(
            _ROW.pack(key, len(dims), width, 0) + b"".join(n.to_bytes(width, "little") for n in dims)
        )
    return b"".join(parts)


def _transform_body(lengths: Mapping[int, int]) -> bytes:
    return np.array([(key, 0, size) for key, size in sorted(lengths.items())], _LENGTH).tobytes()


def _width(dims: Sequence[int]) -> int:
    top = max(dims, default=0)
    return next(width for width in (1, 2, 4, 8) if top < 1 << 8 * width)


def read(block: bytes, start: int, table: Mapping[int, Span], most: int) -> Extension:
    """The block of a container whose table says ``table``; b"" is a container without one.

    ``start`` is the block's offset, for messages; ``most`` bounds the entries of the table and the members of
    fused ones together, but the first of each. Records are walked before anything is kept of them, so that
    a broken block costs little memory.
    """
    bodies = _bodies(block, start) if block else {}
    groups = _read_fused(bodies[FUSED], table, most) if FUSED in bodies else ()
    keys = np.concatenate([np.fromiter(table, np.uint32, len(table)), *(group[1:, 0] for group in groups)])
    keys.sort()
    if keys.size and (keys != np.arange(keys.size, dtype=np.uint32)).any():
        raise Invalid("keys", "the tensors' keys are not 0, 1, 2, …")
    lengths = _read_lengths(bodies.get(TRANSFORM), table)
    names = _read_names(bodies[NAMES], keys.size) if NAMES in bodies else None
    shapes = _read_shapes(bodies[SHAPES], sizes_of(table, groups, lengths)) if SHAPES in bodies else {}
    if TAG in bodies and not bodies[TAG]:
        raise Malformed("tag-record", "the tag is empty")
    return Extension(names, shapes, groups, lengths, bodies.get(TAG, b""))


def sizes_of(
    table: Mapping[int, Span], groups: Sequence[Array], lengths: Mapping[int, int]
) -> dict[int, int]:
    """Every tensor's elements, by key."""
    sizes = {key: span.size for key, span in table.items()} | dict(lengths)
    for group in groups:
        sizes.update(group.tolist())
    return sizes


def _walk(block: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    """(type, flags, first byte, length) of each record; Malformed where their structure is wrong."""
    count = _HEAD.unpack_from(block)[1]
    if count == 0:
        raise Malformed("extension-record", "the block holds no record", offset=start)
    at = _HEAD.size
    for _ in range(count):
        if at + _RECORD.size > len(block):
            raise Malformed("extension-record", "a record runs past the block", offset=start + at)
        kind, flags, length = _RECORD.unpack_from(block, at)
        body = at + _RECORD.size
        stop = body + length + pad8(length)
        if stop > len(block):
            raise Malformed("extension-record", "a record runs past the block", offset=start + at)
        if flags & ~1 or flags != _FLAGS.get(kind, flags):
            raise Malformed("extension-record", f"record type {kind} has flags {flags:#x}", offset=start + at)
        if any(block[body + length : stop]):
            raise Malformed(
                "extension-record", "a record's padding is not zero", offset=start + body + length
            )
        yield kind, flags, body, length
        at = stop
    if at != len(block):
        raise Malformed("extension-record", "the records end before the block", offset=start + at)


def _bodies(block: bytes, start: int) -> dict[int, bytes]:
    """The known records' bodies by type; structure, order and critical types checked."""
    for _ in _walk(block, start):
        pass
    before = -1
    for kind, _, _, _ in _walk(block, start):
        if kind <= before:
            raise Invalid("extension-order", f"record type {kind} follows {before}", offset=start)
        before = kind
    found = {}
    for kind, flags, body, length in _walk(block, start):
        if kind in _FLAGS:
            found[kind] = block[body : body + length]
        elif flags & 1:
            raise Unsupported("extension", f"critical record of unknown type {kind}", offset=start)
    return found


def _read_fused(body: bytes, table: Mapping[int, Span], most: int) -> tuple[Array, ...]:
    if len(body) < _HEAD.size or len(body) % _HEAD.size:
        raise Malformed("fused-record", f"{len(body)} bytes are no sequence of pairs")
    pairs = np.frombuffer(body, "<u4").reshape(-1, 2)
    count, reserved = pairs[0].tolist()
    if count == 0 or reserved:
        raise Malformed("fused-record", f"{count} groups, reserved word {reserved}")
    heads = []
    at = 1
    while at < len(pairs):
        members = int(pairs[at, 1])
        if members < 2 or at + 1 + members > len(pairs):
            raise Malformed("fused-record", f"a group of {members} members")
        heads.append(at)
        at += 1 + members
    if len(heads) != count:
        raise Malformed("fused-record", f"{len(heads)} groups; the record says {count}")
    n = sum(span.chunks for span in table.values()) + len(pairs) - 1 - 2 * count
    if n > most:
        raise LimitExceeded("max-entries", f"{n} entries and members of fused ones; the limit is {most}")
    groups: list[Array] = []
    before = -1
    for at in heads:
        key, members = pairs[at].tolist()
        group = pairs[at + 1 : at + 1 + members]
        if key <= before or group[0, 0] != key or (group[1:, 0] <= group[:-1, 0]).any():
            raise Invalid("fused", f"the group of entry {key} is out of order")
        if table.get(key) != Span(int(group[:, 1].sum(dtype=np.int64)), 1, 0):
            raise Invalid("fused", f"the members of entry {key} do not fill its sole, plain chunk")
        groups.append(group)
        before = key
    others = np.concatenate([group[1:, 0] for group in groups])
    if (
        np.unique(others).size != others.size
        or np.isin(others, np.fromiter(table, np.uint32, len(table))).any()
    ):
        raise Invalid("fused", "a group names a tensor that stands elsewhere")
    return tuple(groups)


def _read_lengths(body: bytes | None, table: Mapping[int, Span]) -> dict[int, int]:
    """The elements of the tensors that are stored as coefficients, by key."""
    if body is not None and (not body or len(body) % _LENGTH.itemsize):
        raise Malformed("transform-record", f"{len(body)} bytes are no rows of {_LENGTH.itemsize}")
    rows = np.frombuffer(body or b"", _LENGTH)
    if rows["reserved"].any():
        raise Malformed("transform-record", "a reserved word is not 0")
    keys = [key for key, span in table.items() if span.domain]
    if rows["key"].tolist() != keys:
        raise Invalid("transform", "the rows are not those of the tensors that are stored as coefficients")
    lengths = dict(zip(keys, rows["size"].tolist(), strict=True))
    for key, size in lengths.items():
        count, _, domain = table[key]
        found = transform(domain)
        # A number far too large is refused before anything is computed from it.
        if size > count * found.width or found.count(size) != count:
            raise Invalid("transform", f"tensor {key}: {count} coefficients are not those of {size} elements")
    return lengths


def _read_names(body: bytes, n: int) -> tuple[str, ...]:
    count = int.from_bytes(body[:4], "little")
    first = 4 + 2 * count
    if count == 0 or first > len(body):
        raise Malformed("names-record", f"{count} names in {len(body)} bytes")
    ends = first + np.cumsum(np.frombuffer(body, "<u2", count, 4), dtype=np.int64)
    if ends[-1] != len(body):
        raise Malformed("names-record", f"the names end at byte {ends[-1]} of {len(body)}")
    if count != n:
        raise Invalid("names", f"{count} names for {n} tensors")
    texts = [body[a:b] for a, b in pairwise([first, *ends.tolist()])]
    if any(a >= b for a, b in pairwise(texts)):
        raise Invalid("names", "the names do not ascend")
    try:
        return tuple(text.decode() for text in texts)
    except UnicodeDecodeError:
        raise Invalid("names", "a name is not UTF-8") from None


def _rows(body: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(key, dimensions) of each row of the shapes record; Malformed where its structure is wrong."""
    at = 0
    while at < len(body) or at == 0:
        if at + _ROW.size > len(body):
            raise Malformed("shapes-record", "a row runs past the record")
        key, ndim, width, reserved = _ROW.unpack_from(body, at)
        at += _ROW.size
        if (
            ndim == 1
            or ndim > _MAX_NDIM
            or width not in (1, 2, 4, 8)
            or reserved
            or at + ndim * width > len(body)
        ):
            raise Malformed("shapes-record", f"a row of {ndim} dimensions, {width} bytes each")
        dims = tuple(
            int.from_bytes(body[i : i + width], "little") for i in range(at, at + ndim * width, width)
        )
        if width != _width(dims):
            raise Malformed("shapes-record", f"{width} bytes a dimension where {_width(dims)} do")
        yield key, dims
        at += ndim * width


def _read_shapes(body: bytes, sizes: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    for _ in _rows(body):
        pass
    shapes: dict[int, tuple[int, ...]] = {}
    before = -1
    for key, dims in _rows(body):
        if key <= before:
            raise Invalid("shapes", "the rows do not ascend")
        before = key
        if sizes.get(key) != math.prod(dims) or math.prod(n for n in dims if n) > _MAX_PRODUCT:
            raise Invalid("shapes", f"tensor {key} has {sizes.get(key)} elements; its shape is {dims}")
        shapes[key] = dims
    return shapes
