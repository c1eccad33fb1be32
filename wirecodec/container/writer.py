"""Writing of a container: prefix, table, extension block, payload, checksums (formats/SPEC.md, section 2).

``pack`` writes encoded entries; ``container.reader`` reads them. ``cpu.chunk`` calls the codecs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.container.checksum import compute_checksum, compute_checksums
from wirecodec.element_types import DTYPES, RECORD_DTYPES
from wirecodec.support import SectionBatch
from wirecodec.value.sort_permutation import PACKED

MAGIC = b"\xf7WC\x1a"
MAJOR = 1
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
_ROW = np.dtype(f"V{TABLE.itemsize}")
"""Rows as plain bytes, which NumPy copies 20 times as fast as structures."""
"""Offset of the element type in a row."""
LENGTHS = ("index_len", "value_len", "map_len")
ROW = struct.Struct("<IIQIIIIIBBBB")
"""A row of the table, for few entries."""
IN_RECORD = 14
"""Wire code of an element type that the record of types has."""
_DTYPE_CODES = {dtype: code for code, dtype in enumerate(DTYPES, 1)} | dict.fromkeys(
    RECORD_DTYPES.values(), IN_RECORD
)
_ZEROS = bytes(7)


Starts: TypeAlias = "Array | list[int]"
"""Offsets of entries."""


@dataclass(frozen=True, eq=False)
class Entry:
    """Encoded chunk: place, counts, element type and domain, codecs' ids, sections; None for no map.

    If they are known (``is_known``), ``indices`` are those that readers find: (r,) u32, or None for all.
    """

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
    indices: Array | None = None
    is_known: bool = False

    @property
    def parts(self) -> list[Bytes]:
        """The sections in their order."""
        sections = [self.index_section, self.value_section]
        return sections if self.map_section is None else [*sections, self.map_section]


@dataclass(frozen=True, eq=False)
class EntryBatch:
    """Entries of many tensors, one each, whose sections are written into the container itself.

    Attributes:
        keys: (n,) u32, ascending.
        d: (n,) u32, elements.
        r: (n,) stored elements, above 0.
        dtype: element type.
        index: id of the index codec of tensors with all their elements; 0 if there are index sections.
        index_sections: None if all elements are stored.
        value_sections: of all values.
        indices: (R,) u32 of all tensors, or None if all elements are stored.
    """

    keys: Array
    d: Array
    r: Array
    dtype: np.dtype[Any]
    index: int
    index_sections: SectionBatch | None
    value_sections: SectionBatch
    indices: Array | None = None

    def rows(self) -> Array:
        """Return the entries' rows of the table, without checksums."""
        table = np.zeros(self.keys.size, TABLE)
        table["key"], table["d"], table["r"] = self.keys, self.d, self.r
        if self.index_sections is not None:
            table["index_len"] = self.index_sections.lengths
        table["value_len"] = self.value_sections.lengths
        table["dtype"] = _DTYPE_CODES[self.dtype]
        table["index"] = self.index if self.index_sections is None else self.index_sections.wire_id
        table["value"] = self.value_sections.wire_id
        return table

    def write(self, words: Array, starts: Array) -> None:
        """Write the sections into (m,) u32; ``starts`` are the entries' first words."""
        if self.index_sections is not None:
            self.index_sections.write(words, starts)
        self.value_sections.write(words, self.value_starts(starts))

    def value_starts(self, starts: Array) -> Array:
        """Return the first words of the value sections."""
        if self.index_sections is None:
            return starts
        begins: Array = starts + ((self.index_sections.lengths + 7) >> 3 << 1)
        return begins


def pack(entries: Sequence[Entry], block: bytes, batches: Sequence[EntryBatch] = ()) -> tuple[Bytes, Starts]:
    """Write a container as a new (n,) uint8 array.

    Args:
        entries: ascending by (key, base).
        block: the extension block.
        batches: entries of other keys.

    Returns the container, and the offsets of the entries and of those of the batches, in this order.
    """
    if not batches:
        return _pack_entries(entries, block)
    parts = [rows_of(entries), *(batch.rows() for batch in batches)]
    table = np.concatenate([part.view(_ROW) for part in parts]).view(TABLE)
    order = np.lexsort((table["base"], table["key"]))
    padded_lengths = (np.array([table[name] for name in LENGTHS], np.int64) + 7) & -8
    sizes = padded_lengths.sum(axis=0)
    payload = PREFIX_BYTES + TABLE.itemsize * table.size + len(block)
    stops = payload + np.cumsum(sizes[order])
    total = int(stops[-1]) if table.size else payload
    starts = np.empty_like(stops)
    starts[order] = stops - sizes[order]
    blob = np.empty(total, np.uint8)
    _zero_padding(blob, starts, padded_lengths)
    for e, start in zip(entries, starts.tolist(), strict=False):
        at = start
        for part in e.parts:
            blob[at : at + part.size] = part
            at += padded(part.size)
    first = len(entries)
    for batch in batches:
        batch.write(blob.view(np.uint32), starts[first : first + batch.keys.size] >> 2)
        first += batch.keys.size
    table["crc"] = compute_checksums(blob, starts, starts + sizes)
    blob.data[:payload] = _header_bytes(table.size, table.take(order).tobytes(), block, total)
    return blob, starts


def _pack_entries(entries: Sequence[Entry], block: bytes) -> tuple[Bytes, list[int]]:
    """Write a container without batches; for few entries, plain loops are faster than columns."""
    payload, places, total = layout(entries, block)
    blob = np.empty(total, np.uint8)
    data, crcs = blob.data, []
    for e, (start, stop) in zip(entries, places, strict=True):
        at = start
        for part in e.parts:
            end = at + part.size
            blob[at:end] = part
            at = end + (-end & 7)
            data[end:at] = _ZEROS[: at - end]
        crcs.append(compute_checksum(blob, start, stop))
    data[:payload] = header_bytes(entries, crcs, block, total)
    return blob, [start for start, _ in places]


def _zero_padding(blob: Bytes, starts: Array, padded_lengths: Array) -> None:
    """Set the last 8 bytes of each section's place to 0, before the section is written.

    Args:
        blob: the container.
        starts: (n,) i64, offsets of the entries.
        padded_lengths: (3, n) i64, bytes of each section's place.
    """
    words, ends = blob.view(np.uint64), starts
    for lengths in padded_lengths:
        ends = ends + lengths
        words[(ends[lengths > 0] >> 3) - 1] = 0


def layout(entries: Sequence[Entry], block: bytes) -> tuple[int, list[tuple[int, int]], int]:
    """Compute the offset of the payload, (start, stop) of each entry, and the container's length.

    Args:
        entries: ascending by (key, base).
        block: the extension block.
    """
    payload = at = PREFIX_BYTES + TABLE.itemsize * len(entries) + len(block)
    places = []
    for e in entries:
        start, at = at, at + (e.index_section.size + 7 & -8) + (e.value_section.size + 7 & -8)
        if e.map_section is not None:
            at += e.map_section.size + 7 & -8
        places.append((start, at))
    return payload, places, at


def header_bytes(entries: Sequence[Entry], crcs: Sequence[int], block: bytes, total: int) -> bytes:
    """Write prefix, table and extension block of entries whose payloads have these checksums."""
    fields = b"".join([ROW.pack(*row_of(e, crc)) for e, crc in zip(entries, crcs, strict=True)])
    return _header_bytes(len(entries), fields, block, total)


def write_header(table: Array, block: bytes, total: int) -> bytes:
    """Write prefix, table and extension block of entries, ``TABLE`` with checksums, of ``total`` bytes."""
    return _header_bytes(table.size, table.tobytes(), block, total)


def rows_of(entries: Sequence[Entry]) -> Array:
    """Return the entries' rows of the table, without checksums."""
    return np.array([row_of(e) for e in entries], TABLE)


def row_of(e: Entry, crc: int = 0) -> tuple[int, ...]:
    """Return the fields of an entry's row of the table."""
    map_length, map_codec = (0, 0) if e.map_section is None else (e.map_section.size, PACKED)
    dtype = e.domain << 4 | _DTYPE_CODES[e.dtype]
    lengths = e.index_section.size, e.value_section.size, map_length
    return (e.key, crc, e.base, e.d, e.r, *lengths, dtype, e.index, e.value, map_codec)


def _header_bytes(entries: int, table: bytes, block: bytes, total: int) -> bytes:
    """Write prefix, table and extension block."""
    minor, flags = (ext.minor_of(block), HAS_EXTENSION) if block else (0, 0)
    prefix = PREFIX.pack(MAGIC, MAJOR, minor, flags, entries, 0, total)
    crc = header_checksum(prefix, table, block)
    return prefix[:12] + struct.pack("<I", crc) + prefix[16:] + table + block


def padded(n: int) -> int:
    """Return a section's length with its padding."""
    return (n + 7) & -8


def header_checksum(prefix: bytes, table: bytes, block: bytes) -> int:
    """Compute the checksum of the header without its own four bytes."""
    return zlib.crc32(block, zlib.crc32(table, zlib.crc32(prefix[:12] + prefix[16:24])))
