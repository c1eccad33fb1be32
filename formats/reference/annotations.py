"""Bodies of the records meta, schema and semantics: SPEC sections 3.7-3.9, rows 41a-41g of section 7.

Each ``read_*`` makes the checks of the record's body (Malformed) and returns plain lists. Each ``check_*``
compares them with the container's tensors.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from formats.reference.element_types import CODE_NAMED
from formats.reference.errors import Invalid, Malformed, Unsupported
from formats.reference.limits import Schema

CONTAINER = 0xFFFFFFFF
"""The key that stands for the container in a row of metadata."""
MAX_ROWS = 65_536
DIGEST_BYTES = 32
ZERO, UNCHANGED = "zero", "unchanged"
MEANINGS = {1: UNCHANGED}
"""Meanings of absent elements by their numbers; that of a tensor without a row is ``ZERO``."""

MetaRow = tuple[int, bytes, bytes]
"""(key, name, value), not yet checked to be UTF-8."""


@dataclass
class Meta:
    """Metadata: {name: value} of the container, and of its tensors by their keys."""

    container: dict[str, str] = field(default_factory=dict)
    tensors: dict[int, dict[str, str]] = field(default_factory=dict)


def read_meta(body: bytes) -> list[MetaRow]:
    """Make the checks of row 41a; return the rows."""
    if len(body) < 4:
        raise Malformed("meta-record", "the body is shorter than its count")
    (count,) = struct.unpack_from("<I", body)
    at = 4 + 12 * count
    if not 1 <= count <= MAX_ROWS or at > len(body):
        raise Malformed("meta-record", f"{count} rows in {len(body)} bytes")
    lengths = list(struct.iter_unpack("<III", body[4:at]))
    if at + sum(name + value for _, name, value in lengths) != len(body):
        raise Malformed("meta-record", "the sum of the lengths is not the length of the body")
    rows = []
    for key, name_len, value_len in lengths:
        end = at + name_len
        rows.append((key, body[at:end], body[end : end + value_len]))
        at = end + value_len
    return rows


def check_meta(rows: Sequence[MetaRow], n: int) -> Meta:
    """Make the checks of row 41b for a container of n tensors; return the metadata."""
    for (key, name, _), (next_key, next_name, _) in itertools.pairwise(rows):
        if (next_key, next_name) <= (key, name):
            raise Invalid("meta", "the rows are not ascending")
    meta = Meta()
    for key, name, value in rows:
        if key >= n and key != CONTAINER:
            raise Invalid("meta", f"a row has key {key}; there are {n} tensors")
        if not name:
            raise Invalid("meta", "a name is empty")
        texts = meta.container if key == CONTAINER else meta.tensors.setdefault(key, {})
        try:
            texts[name.decode("utf-8")] = value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Invalid("meta", "a name or a value is not UTF-8") from error
    return meta


def read_digest(body: bytes, *, named: bool) -> bytes:
    """Make the checks of rows 41c and 41d; return the digest."""
    if len(body) != DIGEST_BYTES:
        raise Malformed("schema-record", f"the digest has {len(body)} bytes, not {DIGEST_BYTES}")
    if named:
        raise Invalid("schema", "there are names and a digest of the schema")
    return body


def compute_digest(schema: Schema) -> bytes:
    """Return the digest of tensors, in any order (SPEC section 3.8)."""
    parts = [struct.pack("<BI", 1, len(schema))]
    for name in sorted(schema, key=lambda name: name.encode("utf-8")):
        shape, dtype = schema[name]
        text = name.encode("utf-8")
        parts.append(struct.pack("<I", len(text)) + text)
        parts.append(struct.pack(f"<BB{len(shape)}Q", CODE_NAMED[dtype], len(shape), *shape))
    return hashlib.sha256(b"".join(parts)).digest()


def read_semantics(body: bytes) -> list[tuple[int, int]]:
    """Make the checks of rows 41e and 41f; return (key, meaning) of each row."""
    if not body or len(body) % 8:
        raise Malformed("semantics-record", f"{len(body)} bytes are not rows of 8")
    rows = list(struct.iter_unpack("<II", body))
    for key, meaning in rows:
        if meaning not in MEANINGS:
            raise Unsupported("meaning", f"the meaning of tensor {key} is {meaning}")
    return rows


def check_semantics(rows: Sequence[tuple[int, int]], domains: Sequence[int]) -> dict[int, str]:
    """Make the check of row 41g; return the meanings by key.

    Args:
        rows: (key, meaning) of each.
        domains: of all tensors, in the order of their keys.
    """
    for (key, _), (next_key, _) in itertools.pairwise(rows):
        if next_key <= key:
            raise Invalid("semantics", "the rows are not ascending")
    for key, _ in rows:
        if key >= len(domains):
            raise Invalid("semantics", f"a row has key {key}; there are {len(domains)} tensors")
        if domains[key]:
            raise Invalid("semantics", f"tensor {key} is stored as coefficients")
    return {key: MEANINGS[meaning] for key, meaning in rows}
