"""Containers with very many records or shape rows in their extension block; the last one may be broken."""

from __future__ import annotations

import struct

from formats.reference import Row, assemble
from formats.reference.writing.records import write_shape

__all__ = [
    "LONG",
    "LONGEST",
    "RECORDS",
    "ROWS",
    "SCALAR",
    "UNKNOWN",
    "record",
    "with_block",
    "with_records",
    "with_rows",
]

LONG, LONGEST = 1 << 10, 1 << 20
"""Numbers of records or rows: enough for the kernel to be used, and 8 MiB."""

UNKNOWN = struct.pack("<HHI", 77, 0, 0)
SCALAR = write_shape(0, ())


def with_block(records: bytes, count: int) -> bytes:
    row = Row(0, 0, 4, 4, 1, 1, 1, b"", bytes(16))
    return assemble([row], struct.pack("<II", 8 + len(records), count) + records)


def with_records(n: int, last: bytes = UNKNOWN, more: int = 0) -> bytes:
    """Assemble n records of one type and a last one; the block's count is off by ``more``."""
    return with_block(UNKNOWN * n + last, n + 1 + more)


def with_rows(n: int, last: bytes = SCALAR) -> bytes:
    """Assemble one record with n rows of one key and a last one."""
    body = SCALAR * n + last
    return with_block(struct.pack("<HHI", 3, 0, len(body)) + body + bytes(-len(body) % 8), 1)


def record(kind: int, flags: int, length: int, body: bytes) -> bytes:
    return struct.pack("<HHI", kind, flags, length) + body


RECORDS = {
    "sound": UNKNOWN,
    "known": record(5, 0, 1, b"t" + bytes(7)),
    "critical": record(78, 1, 0, b""),
    "reserved flag": record(78, 2, 0, b""),
    "flags of a known type": record(5, 1, 1, b"t" + bytes(7)),
    "too long": record(78, 0, 1, b""),
    "far too long": record(78, 0, 2**32 - 1, b""),
    **{
        f"{length} bytes, {'padding' if wrong else 'zeros'}": record(
            78, 0, length, b"\xff" * length + bytes(7 - length) + bytes([wrong])
        )
        for length in range(1, 8)
        for wrong in (0, 1)
    },
    **{
        f"{length} bytes, then one": record(78, 0, length, bytes(length) + b"\1" + bytes(7 - length))
        for length in range(1, 8)
    },
}

ROWS = {
    "sound": SCALAR,
    "two dimensions": write_shape(0, (300, 2)),
    "one dimension": struct.pack("<IBBHBxxxxxxx", 0, 1, 1, 0, 4),
    "33 dimensions": struct.pack("<IBBH33B", 0, 33, 1, 0, *[1] * 33),
    "width 3": struct.pack("<IBBH6x", 0, 2, 3, 0),
    "width 0": struct.pack("<IBBH", 0, 0, 0, 0),
    "reserved": struct.pack("<IBBH", 0, 0, 1, 256),
    "wider than needed": struct.pack("<IBBHHH", 0, 2, 2, 0, 255, 255),
    "64 bits for 32": struct.pack("<IBBHQQ", 0, 2, 8, 0, 2**32 - 1, 1),
    "no dimension of 2 bytes": struct.pack("<IBBH", 0, 0, 2, 0),
    "too long": struct.pack("<IBBHB", 0, 2, 1, 0, 1),
    "cut": SCALAR[:5],
}
