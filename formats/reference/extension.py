"""The frame of the extension block: SPEC section 2.3, rows 28-30 of section 7.

``read_records`` splits the block into records and refuses unknown records that are critical. records.py
reads the bodies.
"""

from __future__ import annotations

import itertools
import struct

from formats.reference.errors import Invalid, Malformed, Unsupported

CRITICAL = 0x0001
FUSED, NAMES, SHAPES, TRANSFORM, TAG = 1, 2, 3, 4, 5
TYPES, META, SCHEMA, SEMANTICS, JOINED, BASE = 6, 7, 8, 9, 10, 11
KNOWN_FLAGS = {FUSED: CRITICAL, NAMES: 0, SHAPES: 0, TRANSFORM: CRITICAL, TAG: 0}
LATER = {TYPES: CRITICAL, META: 0, SCHEMA: 0, SEMANTICS: CRITICAL, JOINED: CRITICAL}
"""Types of later versions than 1.0 are known only with these flags, and otherwise unknown, as in 1.0."""


def read_records(block: bytes, *, based: bool = False) -> dict[int, bytes]:
    """Return the bodies of the known records by type; the block's length is already checked (row 11).

    Args:
        block: the extension block.
        based: whether the record ``base`` is known, which it is to readers of patches alone.
    """
    records = _split_records(block)  # 28
    for (last, _, _), (kind, _, _) in itertools.pairwise(records):
        if kind <= last:
            raise Invalid("extension-order", f"record type {kind} follows {last}")  # 29
    for kind, flags, _ in records:
        if not _is_known(kind, flags, based=based) and flags & CRITICAL:
            raise Unsupported("extension", f"record of unknown type {kind} is critical")  # 30
    return {kind: body for kind, flags, body in records if _is_known(kind, flags, based=based)}


def read_unknown_records(block: bytes) -> list[tuple[int, bytes]]:
    """Return (type, body) of each record of unknown type, in a block that ``read_records`` accepts."""
    return [
        (kind, body) for kind, flags, body in _split_records(block) if not _is_known(kind, flags, based=True)
    ]


def _is_known(kind: int, flags: int, *, based: bool = False) -> bool:
    if based and kind == BASE:
        return flags == CRITICAL
    return kind in KNOWN_FLAGS or LATER.get(kind) == flags


def _split_records(block: bytes) -> list[tuple[int, int, bytes]]:
    """Make the checks of row 28; return (type, flags, body) of each record."""
    (n_records,) = struct.unpack_from("<I", block, 4)
    if n_records == 0:
        raise Malformed("extension-record", "no records")
    records = []
    at = 8
    for _ in range(n_records):  # each iteration consumes at least 8 bytes or raises
        if len(block) - at < 8:
            raise Malformed("extension-record", "a record extends past the block")
        kind, flags, length = struct.unpack_from("<HHI", block, at)
        at += 8
        if length > len(block) - at:
            raise Malformed("extension-record", "a record extends past the block")
        body = block[at : at + length]
        end = at + length + -length % 8  # within the block: its length is a multiple of 8
        if any(block[at + length : end]):
            raise Malformed("extension-record", "padding is not zero")
        if flags & ~CRITICAL or flags != KNOWN_FLAGS.get(kind, flags):
            raise Malformed("extension-record", f"record of type {kind} has flags {flags:#06x}")
        records.append((kind, flags, body))
        at = end
    if at != len(block):
        raise Malformed("extension-record", "bytes after the last record")
    return records
