"""A container taken to parts, so that mutations can reach any of them and lay them out again.

Unlike a decoder, ``parts_of`` believes what it reads as far as the bytes go.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from formats.reference import Record, Row, assemble
from formats.reference.table import ENTRY_BYTES, ENTRY_FORMAT
from formats.reference.writing.assembly import write_extension_block

PREFIX = 24
_WIDTHS = {1: 4, 2: 2, 3: 2}
"""Bytes of an element by its type in the table; 8 of any other."""
MAGIC = b"\xf7WC\x1a"


@dataclass
class Parts:
    """The rows with their sections, the records, and the fields of the prefix."""

    rows: list[Row]
    records: list[Record] = field(default_factory=list)
    minor: int = 0
    flags: int = 0


def parts_of(data: bytes) -> Parts | None:
    """The parts, or None where the bytes do not hold what the prefix and the table promise."""
    if len(data) < PREFIX or data[:4] != MAGIC:
        return None
    _, _, minor, flags, count, _, _ = struct.unpack_from("<4sBBHIIQ", data)
    at = PREFIX + ENTRY_BYTES * count
    if at > len(data):
        return None
    records: list[Record] = []
    if flags & 1:
        if at + 8 > len(data):
            return None
        length, n = struct.unpack_from("<II", data, at)
        found = _records(data[at + 8 : at + length], n)
        if found is None:
            return None
        records, at = found, at + length
    rows = []
    for entry in range(count):
        key, _, base, d, r, *lengths, dtype, index, value, map_ = struct.unpack_from(
            ENTRY_FORMAT, data, PREFIX + ENTRY_BYTES * entry
        )
        sections = []
        for n in lengths:
            sections.append(data[at : at + n])
            at += n + -n % 8
        one, two, three = sections
        rows.append(Row(key, base, d, r, dtype, index, value, one, two, three, map_))
    return Parts(rows, records, minor, flags & ~1) if at <= len(data) else None


def _records(block: bytes, count: int) -> list[Record] | None:
    records, at = [], 0
    for _ in range(min(count, len(block) // 8)):
        if at + 8 > len(block):
            return None
        kind, flags, length = struct.unpack_from("<HHI", block, at)
        records.append(Record(kind, flags, block[at + 8 : at + 8 + length]))
        at += 8 + length + -length % 8
    return records


def laid_out(parts: Parts) -> bytes:
    """A container of the parts, with lengths and checksums that are right."""
    block = write_extension_block(parts.records) if parts.records else b""
    return assemble(parts.rows, block, minor=parts.minor, flags=parts.flags)


def declared(data: bytes) -> tuple[int, int]:
    """(elements stored, their bytes) that a table declares, all of those of transformed ones."""
    if len(data) < PREFIX:
        return 0, 0
    count = min(struct.unpack_from("<I", data, 8)[0], (len(data) - PREFIX) // ENTRY_BYTES)
    stored = bytes_ = 0
    for entry in range(count):
        at = PREFIX + ENTRY_BYTES * entry
        d, r = struct.unpack_from("<II", data, at + 16)
        elements = 2 * d if data[at + 36] >> 4 and r else r
        stored += elements
        bytes_ += elements * _WIDTHS.get(data[at + 36] & 15, 8)
    return stored, bytes_
