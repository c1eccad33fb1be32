"""The extension block: names, shapes, fused tensors, tag (formats/SPEC.md, sections 2.3 and 3).

``write`` and ``read`` are inverse. ``read`` makes the checks of section 7, rows 28 to 38, in their order, and
needs of the table only each tensor key's size and chunk count.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from wirecodec.errors import EncodeError, Invalid, Malformed, Unsupported

__all__ = ["Extension", "Group", "Span", "pad8", "read", "write"]

FUSED, NAMES, SHAPES, TAG = 1, 2, 3, 5
_FLAGS = {FUSED: 1, NAMES: 0, SHAPES: 0, TAG: 0}
_HEAD = struct.Struct("<II")
_RECORD = struct.Struct("<HHI")
_ROW = struct.Struct("<IBBH")
_MAX_NDIM = 32
_MAX_PRODUCT = 2**56


class Group(NamedTuple):
    """Tensors that share an entry: (key, size) of each member, in order; the first key is the entry's."""

    members: tuple[tuple[int, int], ...]


class Span(NamedTuple):
    """What the table says of one key: its elements in all, and its chunks."""

    size: int
    chunks: int


@dataclass(frozen=True)
class Extension:
    """What the block says; ``shapes`` by key for the tensors that are not 1-d."""

    names: tuple[str, ...] | None = None
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    tag: bytes = b""


def pad8(n: int) -> int:
    """Bytes from n up to the next multiple of 8."""
    return -n & 7


def write(extension: Extension) -> bytes:
    """The block, or nothing where it has nothing to say."""
    bodies = {
        FUSED: _fused_body(extension.groups),
        NAMES: _names_body(extension.names),
        SHAPES: _shapes_body(extension.shapes),
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


def _fused_body(groups: Sequence[Group]) -> bytes:
    if not groups:
        return b""
    parts = [_HEAD.pack(len(groups), 0)]
    for group in groups:
        parts.append(_HEAD.pack(group.members[0][0], len(group.members)))
        parts += [_HEAD.pack(key, size) for key, size in group.members]
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
        if len(dims) > _MAX_NDIM:
            raise EncodeError(f"{len(dims)} dimensions; at most {_MAX_NDIM} fit")
        if math.prod(n for n in dims if n) > _MAX_PRODUCT:
            raise EncodeError(f"shape {dims} is too large for the wire format")
        width = _width(dims)
        parts.append(
            _ROW.pack(key, len(dims), width, 0) + b"".join(n.to_bytes(width, "little") for n in dims)
        )
    return b"".join(parts)


def _width(dims: Sequence[int]) -> int:
    top = max(dims, default=0)
    return next(width for width in (1, 2, 4, 8) if top < 1 << 8 * width)


def read(block: bytes, start: int, table: Mapping[int, Span]) -> Extension:
    """The block of a container whose table says ``table``; ``start`` is the block's offset, for messages.

    b"" is a container without one.
    """
    bodies = _records(block, start) if block else {}
    groups = _read_fused(bodies[FUSED], table) if FUSED in bodies else ()
    sizes = {key: span.size for key, span in table.items()}
    for group in groups:
        sizes.update(group.members)
    if sorted(sizes) != list(range(len(sizes))):
        raise Invalid("keys", "the tensors' keys are not 0, 1, 2, …")
    names = _read_names(bodies[NAMES], len(sizes)) if NAMES in bodies else None
    shapes = _read_shapes(bodies[SHAPES], sizes) if SHAPES in bodies else {}
    if TAG in bodies and not bodies[TAG]:
        raise Malformed("tag-record", "the tag is empty")
    return Extension(names, shapes, groups, bodies.get(TAG, b""))


def _records(block: bytes, start: int) -> dict[int, bytes]:
    """The records' bodies by type, structure and order checked, unknown ones dropped."""
    count = _HEAD.unpack_from(block)[1]
    if count == 0:
        raise Malformed("extension-record", "the block holds no record", offset=start)
    found: list[tuple[int, int, bytes]] = []
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
        found.append((kind, flags, block[body : body + length]))
        at = stop
    if at != len(block):
        raise Malformed("extension-record", "the records end before the block", offset=start + at)
    kinds = [kind for kind, _, _ in found]
    if any(a >= b for a, b in pairwise(kinds)):
        raise Invalid("extension-order", f"record types {kinds} do not ascend", offset=start)
    for kind, flags, _ in found:
        if kind not in _FLAGS and flags & 1:
            raise Unsupported("extension", f"critical record of unknown type {kind}", offset=start)
    return {kind: body for kind, _, body in found if kind in _FLAGS}


def _read_fused(body: bytes, table: Mapping[int, Span]) -> tuple[Group, ...]:
    if len(body) < _HEAD.size or len(body) % _HEAD.size:
        raise Malformed("fused-record", f"{len(body)} bytes are no sequence of pairs")
    pairs = list(_HEAD.iter_unpack(body))
    count, reserved = pairs[0]
    if count == 0 or reserved:
        raise Malformed("fused-record", f"{count} groups, reserved word {reserved}")
    groups = []
    at = 1
    while at < len(pairs):
        key, members = pairs[at]
        if members < 2 or at + 1 + members > len(pairs):
            raise Malformed("fused-record", f"a group of {members} members")
        groups.append((key, Group(tuple(pairs[at + 1 : at + 1 + members]))))
        at += 1 + members
    if len(groups) != count:
        raise Malformed("fused-record", f"{len(groups)} groups; the record says {count}")
    taken = set(table)
    for (key, group), before in zip(groups, [-1] + [key for key, _ in groups], strict=False):
        keys = [member for member, _ in group.members]
        if key <= before or keys[0] != key or any(a >= b for a, b in pairwise(keys)):
            raise Invalid("fused", f"the group of entry {key} is out of order")
        if key not in table or not taken.isdisjoint(keys[1:]):
            raise Invalid("fused", f"the group of entry {key} names a tensor that stands elsewhere")
        if table[key] != Span(sum(size for _, size in group.members), 1):
            raise Invalid("fused", f"the members of entry {key} do not fill one chunk")
        taken.update(keys)
    return tuple(group for _, group in groups)


def _read_names(body: bytes, n: int) -> tuple[str, ...]:
    count = int.from_bytes(body[:4], "little")
    first = 4 + 2 * count
    if count == 0 or first > len(body):
        raise Malformed("names-record", f"{count} names in {len(body)} bytes")
    lengths = struct.unpack_from(f"<{count}H", body, 4)
    if first + sum(lengths) != len(body):
        raise Malformed("names-record", f"the names take {sum(lengths)} bytes; {len(body) - first} are there")
    if count != n:
        raise Invalid("names", f"{count} names for {n} tensors")
    ends = list(accumulate(lengths, initial=first))
    texts = [body[a:b] for a, b in pairwise(ends)]
    if any(a >= b for a, b in pairwise(texts)):
        raise Invalid("names", "the names do not ascend")
    try:
        return tuple(text.decode() for text in texts)
    except UnicodeDecodeError:
        raise Invalid("names", "a name is not UTF-8") from None


def _read_shapes(body: bytes, sizes: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    rows: list[tuple[int, tuple[int, ...]]] = []
    at = 0
    while at < len(body) or not rows:
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
        rows.append((key, dims))
        at += ndim * width
    if any(a >= b for (a, _), (b, _) in pairwise(rows)):
        raise Invalid("shapes", "the rows do not ascend")
    for key, dims in rows:
        if sizes.get(key) != math.prod(dims) or math.prod(n for n in dims if n) > _MAX_PRODUCT:
            raise Invalid("shapes", f"tensor {key} has {sizes.get(key)} elements; its shape is {dims}")
    return dict(rows)
