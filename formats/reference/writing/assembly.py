"""Assembling a container from parts, with correct checksums (SPEC sections 2 and 6).

``assemble`` writes any parts, valid or not. It computes only the checksums and the lengths that are not
given. ``reseal`` recomputes the checksums of modified bytes. Both serve tests and golden vectors: a vector
with one stated error must not fail because of its checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from formats.reference.container import HAS_EXTENSION, MAGIC, PREFIX_BYTES, compute_head_checksum, pad8
from formats.reference.table import ENTRY_BYTES, ENTRY_FORMAT, Entry

CRC_OFFSET = 4


@dataclass
class Row:
    """One entry of the table with its sections; a length that is None is that of the section."""

    key: int
    base: int
    d: int
    r: int
    dtype: int
    index: int
    value: int
    index_section: bytes = b""
    value_section: bytes = b""
    map_section: bytes = b""
    map: int = 0
    index_len: int | None = None
    value_len: int | None = None
    map_len: int | None = None


@dataclass
class Record:
    """One record of the extension block."""

    type: int
    flags: int
    body: bytes


def pad(section: bytes) -> bytes:
    """Return the bytes, padded with zero bytes to a multiple of 8."""
    return section + bytes(pad8(len(section)))


def write_extension_block(records: Sequence[Record]) -> bytes:
    """Return the extension block with these records in the given order."""
    body = b"".join(struct.pack("<HHI", r.type, r.flags, len(r.body)) + pad(r.body) for r in records)
    return struct.pack("<II", 8 + len(body), len(records)) + body


def assemble(rows: Sequence[Row], block: bytes = b"", *, minor: int = 0, flags: int = 0) -> bytes:
    """Assemble a container of these parts, valid or not, with correct checksums.

    Args:
        rows: the entries with their sections, in the table's order.
        block: the extension block; empty for none.
        minor: the minor version.
        flags: flags in addition to the one for the block.
    """
    table: list[bytes] = []
    payloads: list[bytes] = []
    for row in rows:
        sections = (row.index_section, row.value_section, row.map_section)
        payload = b"".join(pad(section) for section in sections)
        given = (row.index_len, row.value_len, row.map_len)
        lengths = [len(s) if n is None else n for s, n in zip(sections, given, strict=True)]
        fields = row.key, zlib.crc32(payload), row.base, row.d, row.r
        ids = row.dtype, row.index, row.value, row.map
        table.append(struct.pack(ENTRY_FORMAT, *fields, *lengths, *ids))
        payloads.append(payload)
    flags |= HAS_EXTENSION if block else 0
    head_end = PREFIX_BYTES + ENTRY_BYTES * len(rows) + len(block)
    total_len = head_end + sum(map(len, payloads))
    head = struct.pack("<4sBBHIIQ", MAGIC, 1, minor, flags, len(rows), 0, total_len)
    return _seal_head(b"".join([head, *table, block, *payloads]), head_end)


def _seal_head(data: bytes, head_end: int) -> bytes:
    return data[:12] + struct.pack("<I", compute_head_checksum(data, head_end)) + data[16:]


def reseal(data: bytes) -> bytes:
    """Return the same bytes with all checksums recomputed, as far as their lengths allow."""
    out = bytearray(data)
    if len(out) < PREFIX_BYTES:
        return data
    flags, n_entries = struct.unpack_from("<HI", out, 6)
    table_end = PREFIX_BYTES + ENTRY_BYTES * n_entries
    if table_end > len(out):
        return data
    head_end = table_end
    if flags & HAS_EXTENSION and table_end + 4 <= len(out):
        head_end += int(struct.unpack_from("<I", out, table_end)[0])
    offset = head_end
    for number in range(n_entries):
        at = PREFIX_BYTES + ENTRY_BYTES * number
        entry = Entry(number, *struct.unpack_from(ENTRY_FORMAT, out, at))
        payload = bytes(out[offset : offset + entry.payload_bytes])
        struct.pack_into("<I", out, at + CRC_OFFSET, zlib.crc32(payload))
        offset += entry.payload_bytes
    return _seal_head(bytes(out), head_end)
