"""Records about the tensors of a container: metadata, a digest of the schema, meanings of absent elements
(formats/SPEC.md, 3.7 to 3.9).

``extension_reader`` checks them; ``add_records`` writes them into the head of an encoded container.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container import extension_writer as ext
from wirecodec.container.records import find_record_bodies
from wirecodec.container.writer import HAS_EXTENSION, PREFIX, PREFIX_BYTES, header_checksum
from wirecodec.element_types import number_of
from wirecodec.errors import EncodeError, Invalid, Malformed, Unsupported
from wirecodec.sparse import UNCHANGED

CONTAINER = 0xFFFFFFFF
"""Key of the container's own metadata."""
MAX_ROWS = 65_536
MEANINGS = {1: UNCHANGED}
PRIVATE = range(0x8000, 0xFFF0)
"""Record types for private use."""

_ROW = struct.Struct("<III")
_DIGEST_BYTES = hashlib.sha256().digest_size


def check_meta(body: memoryview, n: int) -> None:
    """Check the metadata of a container of n tensors: rows 41a and 41b of section 7."""
    count = int.from_bytes(body[:4], "little")
    start = 4 + _ROW.size * count
    if len(body) < 4 or not 1 <= count <= MAX_ROWS or start > len(body):
        raise Malformed("meta-record", f"{count} rows in {len(body)} bytes")
    rows = np.frombuffer(body, "<u4", 3 * count, 4).reshape(-1, 3)
    if start + int(rows[:, 1:].sum(dtype=np.int64)) != len(body):
        raise Malformed("meta-record", "the sum of the lengths is not the length of the record")
    before: tuple[int, bytes] = -1, b""
    try:
        for key, name, value in _walk_rows(body):
            if (key, name) <= before:
                raise Invalid("meta", "the rows do not ascend")
            if not name or (key >= n and key != CONTAINER):
                raise Invalid("meta", f"a name of {len(name)} bytes for tensor {key} of {n}")
            before = key, name
            name.decode(), str(value, "utf-8")
    except UnicodeDecodeError:
        raise Invalid("meta", "a name or a value is not UTF-8") from None


def read_meta(body: memoryview) -> Iterator[tuple[int, str, str]]:
    """Yield (key, name, value) of each row of a checked record."""
    return ((key, name.decode(), str(value, "utf-8")) for key, name, value in _walk_rows(body))


def _walk_rows(body: memoryview) -> Iterator[tuple[int, bytes, memoryview]]:
    """Yield (key, name, value) of each row of a record with checked lengths."""
    count = int.from_bytes(body[:4], "little")
    at = 4 + _ROW.size * count
    for key, name_length, value_length in _ROW.iter_unpack(body[4:at]):
        stop = at + name_length
        yield key, bytes(body[at:stop]), body[stop : stop + value_length]
        at = stop + value_length


def check_digest(body: memoryview, *, is_named: bool) -> None:
    """Check the digest of the schema: rows 41c and 41d of section 7."""
    if len(body) != _DIGEST_BYTES:
        raise Malformed("schema-record", f"a digest of {len(body)} bytes")
    if is_named:
        raise Invalid("schema", "the container has names and a digest of its schema")


def check_semantics(body: memoryview, n: int, transformed: Array) -> None:
    """Check the meanings of absent elements: rows 41e to 41g of section 7.

    Args:
        body: of the record.
        n: number of tensors.
        transformed: keys of the tensors that are stored as coefficients.
    """
    if not body or len(body) % 8:
        raise Malformed("semantics-record", f"{len(body)} bytes are not rows of 8")
    keys, meanings = np.frombuffer(body, "<u4").reshape(-1, 2).T
    unknown = ~np.isin(meanings, list(MEANINGS))
    if unknown.any():
        at = int(np.argmax(unknown))
        raise Unsupported("meaning", f"absent elements of tensor {keys[at]} have meaning {meanings[at]}")
    if (keys[1:] <= keys[:-1]).any() or int(keys[-1]) >= n:
        raise Invalid("semantics", "the keys do not ascend, or one is that of no tensor")
    if np.isin(keys, transformed).any():
        raise Invalid("semantics", "a tensor with unchanged elements is stored as coefficients")


def read_patches(body: memoryview) -> Array:
    """Return the keys of the tensors whose absent elements are unchanged, (n,) u32, of a checked record."""
    keys: Array = np.frombuffer(body, "<u4")[::2]
    return keys


def compute_digest(tensors: Iterable[tuple[str, tuple[int, ...], Any]]) -> bytes:
    """Return the digest of (name, shape, dtype) of tensors, in the order of their keys."""
    parts = []
    for name, shape, dtype in tensors:
        text, code = name.encode(), number_of(dtype)
        parts.append(struct.pack("<I", len(text)) + text)
        parts.append(struct.pack(f"<BB{len(shape)}Q", code, len(shape), *shape))
    return hashlib.sha256(struct.pack("<BI", 1, len(parts) // 2) + b"".join(parts)).digest()


def meta_body(texts: Mapping[int, Mapping[str, str]]) -> bytes:
    """Write a meta record of {key: {name: value}}; return no bytes if there is no text.

    Raises EncodeError for a name or a value that the record cannot hold.
    """
    rows = []
    for key, named in sorted(texts.items()):
        try:
            encoded = sorted((name.encode(), value.encode()) for name, value in named.items())
        except (AttributeError, UnicodeEncodeError) as error:
            raise EncodeError(f"metadata is not {{name: text}}: {error}") from None
        if encoded and not encoded[0][0]:
            raise EncodeError("a name of the metadata is empty")
        rows += [(key, name, value) for name, value in encoded]
    if len(rows) > MAX_ROWS:
        raise EncodeError(f"the metadata have {len(rows)} texts; the most are {MAX_ROWS}")
    if not rows:
        return b""
    heads = b"".join(_ROW.pack(key, len(name), len(value)) for key, name, value in rows)
    return struct.pack("<I", len(rows)) + heads + b"".join(name + value for _, name, value in rows)


def semantics_body(patches: Iterable[int]) -> bytes:
    """Write a semantics record of the keys of patches; return no bytes if there is none."""
    (unchanged,) = MEANINGS
    return b"".join(struct.pack("<II", key, unchanged) for key in sorted(patches))


def private_bodies(records: Mapping[int, bytes]) -> dict[int, bytes]:
    """Check private records, {type: body}. Raises EncodeError."""
    for kind, body in records.items():
        if kind not in PRIVATE:
            raise EncodeError(f"record type {kind!r} is not private; private types are 0x8000 to 0xFFEF")
        if not bytes(body):
            raise EncodeError(f"the body of record {kind:#x} is empty")
    return {kind: bytes(body) for kind, body in records.items()}


def add_records(head: bytes, block: bytes, bodies: Mapping[int, bytes]) -> bytes:
    """Return the head of a container with more records.

    Args:
        head: prefix and table.
        block: the extension block; empty if there is none.
        bodies: {type: body} of the records to add.
    """
    magic, major, minor, flags, entries, _, total = PREFIX.unpack_from(head)
    own = (
        {kind: bytes(body) for kind, body in find_record_bodies(memoryview(block), 0).items()}
        if block
        else {}
    )
    longer = ext.write_records(dict(sorted({**own, **bodies}.items())))
    fields = max(minor, ext.minor_of(longer)), flags | HAS_EXTENSION, entries
    prefix = PREFIX.pack(magic, major, *fields, 0, total + len(longer) - len(block))
    table = head[PREFIX_BYTES:]
    crc = header_checksum(prefix, table, longer)
    return prefix[:12] + struct.pack("<I", crc) + prefix[16:] + table + longer
