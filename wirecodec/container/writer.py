"""Writing of a container: prefix, table, extension block, payload, checksums (formats/SPEC.md, section 2).

``pack`` writes encoded entries; ``container.reader`` reads them. ``cpu.chunk`` calls the codecs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.value.sort_permutation import PACKED

__all__ = ["CHUNK", "MAJOR", "PREFIX_BYTES", "Entry", "header_bytes", "layout", "pack"]

MAGIC = b"\xf7WC\x1a"
MAJOR, MINOR = 1, 0
HAS_EXTENSION = 1
CHUNK = 2**24
"""Elements of every chunk of a tensor except its last; half as many if they are complex coefficients."""

PREFIX = struct.Struct("<4sBBHIIQ")
PREFIX_BYTES = PREFIX.size
TABLE = np.dtype(
    [
        ("key", "<u4"),
        ("crc", "<u4"),
        ("base", "<u8"),
        ("d", "<u4"),
        ("r", "<u4"),
        ("index_len", "<u4"),
        ("value_len", "<u4"),
        ("map_len", "<u4"),
        ("dtype", "u1"),
        ("index", "u1"),
        ("value", "u1"),
        ("map", "u1"),
    ]
)
LENGTHS = ("index_len", "value_len", "map_len")


@dataclass(frozen=True, eq=False)
class Entry:
    """Encoded chunk: place, counts, element type and domain, codecs' ids, sections; None for no map."""

    key: int
    base: int
    d: int
    r: int
    dtype: np.dtype[Any]
    domain: int
    index: int
    value: int
    index_section: Bytes
    value_section: Bytes
    map_section: Bytes | None = None

    @property
    def parts(self) -> list[Bytes]:
        """The sections in their order."""
        sections = [self.index_section, self.value_section]
        return sections if self.map_section is None else [*sections, self.map_section]


def pack(entries: Sequence[Entry], extension: ext.Extension) -> Bytes:
    """Write a container of entries, ascending by (key, base), as a new (n,) uint8 array."""
    block = ext.write(extension)
    payload, places, total = layout(entries, block)
    blob = np.empty(total, np.uint8)
    crcs = []
    for e, (start, stop) in zip(entries, places, strict=True):
        at = start
        for part in e.parts:
            blob[at : at + part.size] = part
            blob[at + part.size : at + padded(part.size)] = 0
            at += padded(part.size)
        crcs.append(zlib.crc32(blob[start:stop].data))
    blob[:payload] = np.frombuffer(header_bytes(entries, crcs, block, total), np.uint8)
    return blob


def layout(entries: Sequence[Entry], block: bytes) -> tuple[int, list[tuple[int, int]], int]:
    """Compute the offset of the payload, (start, stop) of each entry, and the container's length.

    Args:
        entries: ascending by (key, base).
        block: the extension block.
    """
    payload = at = PREFIX_BYTES + TABLE.itemsize * len(entries) + len(block)
    places = []
    for e in entries:
        start, at = at, at + sum(padded(part.size) for part in e.parts)
        places.append((start, at))
    return payload, places, at


def header_bytes(entries: Sequence[Entry], crcs: Sequence[int], block: bytes, total: int) -> bytes:
    """Write prefix, table and extension block of entries whose payloads have these checksums."""
    table = np.zeros(len(entries), TABLE)
    for row, e, payload_crc in zip(table, entries, crcs, strict=True):
        row["key"], row["base"], row["d"], row["r"] = e.key, e.base, e.d, e.r
        row["index_len"], row["value_len"] = e.index_section.size, e.value_section.size
        if e.map_section is not None:
            row["map_len"], row["map"] = e.map_section.size, PACKED
        row["dtype"] = e.domain << 4 | (DTYPES.index(e.dtype) + 1)
        row["index"], row["value"] = e.index, e.value
        row["crc"] = payload_crc
    prefix = PREFIX.pack(MAGIC, MAJOR, MINOR, HAS_EXTENSION if block else 0, len(entries), 0, total)
    fields = table.tobytes()
    crc = header_checksum(prefix, fields, block)
    return prefix[:12] + struct.pack("<I", crc) + prefix[16:] + fields + block


def padded(n: int) -> int:
    """Return a section's length with its padding."""
    return n + ext.pad8(n)


def header_checksum(prefix: bytes, table: bytes, block: bytes) -> int:
    """Compute the checksum of the header without its own four bytes."""
    return zlib.crc32(block, zlib.crc32(table, zlib.crc32(prefix[:12] + prefix[16:24])))
