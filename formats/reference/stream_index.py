"""Index and end of a closed stream: spec/stream.md, sections 4 to 6.

``read_index`` makes the checks of section 6. It reads the end and the index, and no container.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from formats.reference.container import PREFIX_BYTES, pad8
from formats.reference.element_types import CODE_NAMED
from formats.reference.errors import (
    ChecksumMismatch,
    Invalid,
    LimitExceeded,
    Malformed,
    Truncated,
    Unsupported,
)
from formats.reference.limits import DEFAULT_LIMITS, Limits
from formats.reference.stream import UNIT_MAGIC, write_unit

INDEX, END, PADDING = 1, 2, 3
"""Applications of the units."""
END_BYTES = PREFIX_BYTES + 64
MAX_NAME_BYTES = 65_535

_END = struct.Struct("<B7xQQQ32s")
_HEAD = struct.Struct("<B7xII")
_PART = struct.Struct("<QQ32s")
_TENSOR = struct.Struct("<IIBBH")
_TYPES = {number: name for name, number in CODE_NAMED.items()}


@dataclass(frozen=True)
class Entry:
    """Tensor of an index: its name, the name of its element type, and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Container of an index: its offset, length and SHA-256, and its tensors in the order of their keys."""

    offset: int
    length: int
    digest: bytes
    tensors: tuple[Entry, ...]


def read_index(data: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Part]:
    """Read the index of a closed stream.

    Args:
        data: the whole stream.
        limits: limits of the caller; max_bytes bounds the index.

    Raises:
        WireError: for the first check that fails.
    """
    end = data[-END_BYTES:]
    if len(end) < END_BYTES or struct.unpack_from("<4sII", end) != (UNIT_MAGIC, END, 64):
        raise Truncated("stream-end", "the stream is cut, or not closed")  # 9
    body = _read_unit(end)  # 10
    form, offset, length, total, digest = _END.unpack(body)
    if form != 1 or any(body[1:8]) or total != len(data):
        raise Malformed("end", f"form {form}, a stream of {total} bytes, not {len(data)}")  # 11
    if offset % 8 or length % 8 or length < 40 or offset + length > total - END_BYTES:
        raise Malformed("end", f"an index of {length} bytes at {offset}")
    if length > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"an index of {length} bytes")  # 12
    unit = data[offset : offset + length]
    if hashlib.sha256(unit).digest() != digest:
        raise ChecksumMismatch("index-digest", "the index is not the end's")  # 13
    magic, application, total_len = struct.unpack_from("<4sI8xQ", unit)
    if (magic, application, total_len) != (UNIT_MAGIC, INDEX, length):
        raise Malformed("index", "the end names no index")  # 14
    return _read_body(_read_unit(unit), offset)  # 15


def _read_unit(unit: bytes) -> bytes:
    """Make rows 5, 7 and 8 of section 2 for a unit of as many bytes; return the body."""
    body_len, crc, total_len = struct.unpack_from("<8xIIQ", unit)
    if total_len != PREFIX_BYTES + body_len + pad8(body_len):
        raise Malformed("unit-length", f"total_len is {total_len}, body_len {body_len}")
    if zlib.crc32(unit[16:], zlib.crc32(unit[:12])) != crc:
        raise ChecksumMismatch("unit-checksum", "the unit is damaged")
    if any(unit[PREFIX_BYTES + body_len :]):
        raise Malformed("unit-padding", "padding is not zero")
    return unit[PREFIX_BYTES : PREFIX_BYTES + body_len]


def _read_body(body: bytes, stop: int) -> list[Part]:
    """Make rows 16 to 18; ``stop`` is the offset of the index."""
    if len(body) < _HEAD.size:
        raise Malformed("index", f"a body of {len(body)} bytes")
    form, n_parts, n_tensors = _HEAD.unpack_from(body)
    tensors_at = _HEAD.size + _PART.size * n_parts
    shapes_at = tensors_at + _TENSOR.size * n_tensors
    if form != 1 or any(body[1:8]) or shapes_at > len(body):
        raise Malformed("index", f"form {form}, {n_parts} parts and {n_tensors} tensors")
    rows = list(_TENSOR.iter_unpack(body[tensors_at:shapes_at]))
    names_at = shapes_at + 8 * sum(row[3] for row in rows)
    if names_at + sum(row[1] for row in rows) != len(body):
        raise Malformed("index", "the rows do not add up to the body")
    parts, at = list(_PART.iter_unpack(body[_HEAD.size : tensors_at])), 0
    for offset, length, _ in parts:
        if offset % 8 or length % 8 or length < PREFIX_BYTES or offset < at or offset + length > stop:
            raise Malformed("index", f"a part of {length} bytes at {offset}")
        at = offset + length
    last = 0
    for part, _, _, _, reserved in rows:
        if part >= n_parts or part < last or reserved:
            raise Malformed("index", f"a tensor of part {part}")
        last = part
    for row in rows:
        if row[2] not in _TYPES:
            raise Unsupported("dtype", f"element type {row[2]}")  # 17
    found: list[list[Entry]] = [[] for _ in parts]
    for part, name_len, dtype, ndim, _ in rows:
        shape = struct.unpack_from(f"<{ndim}Q", body, shapes_at)
        name = body[names_at : names_at + name_len]
        shapes_at, names_at = shapes_at + 8 * ndim, names_at + name_len
        try:
            text = name.decode()
        except UnicodeDecodeError:
            raise Invalid("index-names", "a name is not UTF-8") from None  # 18
        if name_len > MAX_NAME_BYTES:
            raise Invalid("index-names", f"a name of {name_len} bytes")
        found[part].append(Entry(text, _TYPES[dtype], shape))
    rows_of = zip(parts, found, strict=True)
    return [Part(offset, length, digest, tuple(own)) for (offset, length, digest), own in rows_of]


def write_index(parts: Sequence[Part]) -> bytes:
    """Return the unit of an index."""
    entries = [(number, one) for number, part in enumerate(parts) for one in part.tensors]
    body = _HEAD.pack(1, len(parts), len(entries))
    body += b"".join(_PART.pack(part.offset, part.length, part.digest) for part in parts)
    for number, one in entries:
        name = one.name.encode()
        body += _TENSOR.pack(number, len(name), CODE_NAMED[one.dtype], len(one.shape), 0)
    body += b"".join(struct.pack(f"<{len(one.shape)}Q", *one.shape) for _, one in entries)
    return write_unit(INDEX, body + b"".join(one.name.encode() for _, one in entries))


def write_end(index: bytes, offset: int) -> bytes:
    """Return the unit that ends a stream right after its index, which is at ``offset``."""
    stream_len = offset + len(index) + END_BYTES
    digest = hashlib.sha256(index).digest()
    return write_unit(END, _END.pack(1, offset, len(index), stream_len, digest))
