"""Bodies of the records in the extension block (SPEC section 3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from formats.reference.annotations import MetaRow
from formats.reference.records import WIDTHS, shortest_width


def write_names(names: Sequence[bytes]) -> bytes:
    """Return the body of a names record."""
    lengths = struct.pack(f"<{len(names)}H", *(len(name) for name in names))
    return struct.pack("<I", len(names)) + lengths + b"".join(names)


def write_fused(groups: Sequence[Sequence[tuple[int, int]]]) -> bytes:
    """Return the body of a fused record from the (key, size) of each group's members."""
    body = struct.pack("<II", len(groups), 0)
    for members in groups:
        body += struct.pack("<II", members[0][0], len(members))
        body += b"".join(struct.pack("<II", key, size) for key, size in members)
    return body


def write_joined(vectors: Sequence[Sequence[tuple[int, int]]]) -> bytes:
    """Return the body of a joined record from the (key, size) of each vector's members."""
    return b"".join(
        struct.pack("<IIQ", members[0][0], key, size) for members in vectors for key, size in members
    )


def write_shape(key: int, shape: tuple[int, ...]) -> bytes:
    """Return one row of a shapes record."""
    width = shortest_width(shape)
    return struct.pack(f"<IBBH{len(shape)}{WIDTHS[width]}", key, len(shape), width, 0, *shape)


def write_meta(rows: Sequence[MetaRow]) -> bytes:
    """Return the body of a meta record from its rows."""
    heads = b"".join(struct.pack("<III", key, len(name), len(value)) for key, name, value in rows)
    return struct.pack("<I", len(rows)) + heads + b"".join(name + value for _, name, value in rows)


def write_semantics(meanings: Sequence[tuple[int, int]]) -> bytes:
    """Return the body of a semantics record from (key, meaning) of each row."""
    return b"".join(struct.pack("<II", key, meaning) for key, meaning in meanings)
