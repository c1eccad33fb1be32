"""A container from its first byte to its tensors: rows 1-13 and 45-50 of SPEC section 7.

Each check is one ``if``, here or in table, extension and tensors, in the specification's order. Each is made
over the whole table before the next. No memory is allocated and no loop runs in proportion to an unchecked
number. Python's integers do not wrap; a port must check before it adds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

from formats.reference.annotations import Meta
from formats.reference.element_types import ElementType, check_bool
from formats.reference.errors import (
    ChecksumMismatch,
    LimitExceeded,
    Malformed,
    Truncated,
    Unsupported,
    WireError,
)
from formats.reference.extension import SCHEMA, TAG, read_records
from formats.reference.floats import Format
from formats.reference.index.codecs import decode_index
from formats.reference.limits import DEFAULT_LIMITS, Limits, Schema, Work
from formats.reference.map.packed import decode_packed, restore
from formats.reference.table import ENTRY_BYTES, Entry, check_table, read_table
from formats.reference.tensors import Chunk, Decoded, TensorLocation, assemble_tensors, locate_tensors
from formats.reference.transform.coefficients import check_coefficients, stored_type
from formats.reference.value.codecs import VALUE_CODECS, ZSTD, decode_value
from formats.reference.value.zstd import Decompress

MAGIC = b"\xf7\x57\x43\x1a"
PREFIX_BYTES = 24
HAS_EXTENSION = 0x0001
INCOMPATIBLE = 0x00FE


@dataclass(frozen=True)
class Header:
    """Content of a container before its payload; ``records`` has the known ones of the extension block."""

    minor: int
    entries: list[Entry]
    block: bytes
    records: dict[int, bytes]
    places: list[TensorLocation]
    meta: Meta
    payload: int


def pad8(n: int) -> int:
    """Return the number of bytes from n to the next multiple of 8."""
    return -n % 8


def decode(
    data: bytes,
    limits: Limits = DEFAULT_LIMITS,
    schema: Schema | None = None,
    *,
    single: bool = False,
    zstd: Decompress | None = None,
) -> Decoded:
    """Decode one container that fills the bytes exactly.

    Args:
        data: the container.
        limits: limits of the caller.
        schema: names, shapes and element types that the caller expects, or None.
        single: whether the caller asked for exactly one tensor. A schema then has one item, and its name is
            not compared.
        zstd: returns the content of a Zstandard frame, given the frame and the content size that it states.
            It may raise any exception if the frame is invalid. Without it, codec 7 is not supported.

    Returns:
        The tensors in the order of their keys, the tag, the metadata, and the digest of the schema.

    Raises:
        WireError: with the class and code of the first check of SPEC section 7 that fails.

    Examples:
        >>> from formats.reference import Tensor, decode, write
        >>> data = write([Tensor("w", "float32", (4,), [1, 3], bytes(8))], "bitmap")
        >>> decode(data).tensors[0].indices
        [1, 3]
    """
    data = bytes(data)
    supported = VALUE_CODECS.keys() - ({ZSTD} if zstd is None else set())
    header = read_header(data, limits, schema, single=single, supported=supported)
    types = {p.entry_key: p.dtype for p in header.places}
    chunks: dict[int, list[Chunk]] = {}
    offset = header.payload
    work = Work(limits.max_work)
    for entry in header.entries:
        chunk = _decode_entry(data, offset, entry, types[entry.key], work, zstd)  # rows 45-50
        chunks.setdefault(entry.key, []).append(chunk)
        offset += entry.payload_bytes
    tensors = assemble_tensors(header.places, chunks)
    return Decoded(tensors, header.records.get(TAG, b""), header.meta, header.records.get(SCHEMA, b""))


def read_header(
    data: bytes,
    limits: Limits,
    schema: Schema | None = None,
    *,
    single: bool = False,
    supported: Set[int],
    private: Set[int] = frozenset(),
    based: bool = False,
) -> Header:
    """Read everything before the payload: rows 1-44a. Arguments and errors are those of ``decode``.

    Args:
        data: the container.
        limits: limits of the caller.
        schema: names, shapes and element types that the caller expects, or None.
        single: whether the caller asked for exactly one tensor.
        supported: ids of value codecs that are decoded.
        private: ids of index and value codecs that are accepted, too, although nothing decodes them.
        based: whether to accept a patch of weights; row 27 is not applied then.
    """
    flags, n_entries, ext_len, total_len = _check_frame(data, limits)
    table_end = PREFIX_BYTES + ENTRY_BYTES * n_entries
    block = data[table_end : table_end + ext_len]
    entries = read_table(data[PREFIX_BYTES:table_end])
    _check_layout(entries, table_end + ext_len, total_len)  # row 13
    check_table(  # rows 14-27
        entries, limits, total_len, schema is not None, supported, private, based=based
    )
    records = read_records(block, based=based) if flags & HAS_EXTENSION else {}  # rows 28-30
    places, meta = locate_tensors(entries, records, schema, limits, single=single)  # rows 31-44a
    return Header(data[5], entries, block, records, places, meta, table_end + ext_len)


def _check_frame(data: bytes, limits: Limits) -> tuple[int, int, int, int]:
    """Make the checks of rows 1-12.

    Returns flags, n_entries, ext_len (0 without an extension block) and total_len.
    """
    if len(data) < PREFIX_BYTES:
        raise Truncated("prefix", f"{len(data)} bytes; the prefix has 24", offset=len(data))  # 1
    magic, major, _minor, flags, n_entries, head_crc, total_len = struct.unpack_from("<4sBBHIIQ", data)
    if magic != MAGIC:
        raise Malformed("magic", f"the magic is {magic.hex()}", offset=0)  # 2
    if major != 1:
        raise Unsupported("major", f"major is {major}; it must be 1", offset=4)  # 3
    if flags & INCOMPATIBLE:
        raise Unsupported("flags", f"unknown flags {flags & INCOMPATIBLE:#06x}", offset=6)  # 4
    if total_len > limits.max_bytes:
        raise LimitExceeded(
            "max-bytes", f"total_len is {total_len}; the limit is {limits.max_bytes}", offset=16
        )  # 5
    if total_len < PREFIX_BYTES or total_len % 8:
        raise Malformed("total-length", f"total_len is {total_len}", offset=16)  # 6
    if len(data) < total_len:
        raise Truncated("container", f"{len(data)} of {total_len} bytes are present", offset=len(data))  # 7
    if len(data) > total_len:
        raise Malformed(
            "trailing", f"{len(data) - total_len} bytes after the container", offset=total_len
        )  # 8
    if n_entries > limits.max_entries:
        raise LimitExceeded(
            "max-entries", f"{n_entries} entries; the limit is {limits.max_entries}", offset=8
        )  # 9
    table_end = PREFIX_BYTES + ENTRY_BYTES * n_entries
    extended = bool(flags & HAS_EXTENSION)
    if table_end + (8 if extended else 0) > total_len:
        raise Malformed("table-length", f"{n_entries} entries do not fit {total_len} bytes", offset=8)  # 10
    ext_len = 0
    if extended:
        (ext_len,) = struct.unpack_from("<I", data, table_end)
        if ext_len < 16 or ext_len % 8 or table_end + ext_len > total_len:
            raise Malformed("extension-length", f"ext_len is {ext_len}", offset=table_end)  # 11
    if compute_head_checksum(data, table_end + ext_len) != head_crc:
        raise ChecksumMismatch(
            "head-checksum", "prefix, table or extension block is damaged", offset=12
        )  # 12
    return flags, n_entries, ext_len, total_len


def compute_head_checksum(data: bytes, head_end: int) -> int:
    """Return the CRC-32 of all bytes before the payload, except the four bytes of head_crc."""
    return zlib.crc32(data[16:head_end], zlib.crc32(data[:12]))


def _check_layout(entries: list[Entry], head_bytes: int, total_len: int) -> None:
    """Make the check of row 13: the parts fill the container exactly."""
    filled = head_bytes + sum(entry.payload_bytes for entry in entries)
    if filled != total_len:
        raise Malformed("layout", f"the parts take {filled} of {total_len} bytes", offset=PREFIX_BYTES)


def split_entry(data: bytes, offset: int, entry: Entry) -> list[tuple[int, bytes]]:
    """Make the checks of rows 45 and 46; return the offset and the bytes of each of the three sections."""
    payload = data[offset : offset + entry.payload_bytes]
    if zlib.crc32(payload) != entry.crc:
        raise ChecksumMismatch(
            "entry-checksum", "the payload is damaged", offset=offset, entry=entry.number
        )  # 45
    sections = []
    at = 0
    for length in (entry.index_len, entry.value_len, entry.map_len):
        sections.append((offset + at, payload[at : at + length]))
        at += length + pad8(length)
    for start, section in sections:
        end = start - offset + len(section)
        if any(payload[end : end + pad8(len(section))]):
            raise Malformed("padding", "padding is not zero", offset=offset + end, entry=entry.number)  # 46
    return sections


def _decode_entry(
    data: bytes, offset: int, entry: Entry, element: ElementType, work: Work, zstd: Decompress | None
) -> tuple[Sequence[int], bytes]:
    """Make the checks of rows 45-50 for the entry whose payload starts at ``offset``.

    Returns its indices, counted within the chunk, and its values' bytes.
    """
    sections = split_entry(data, offset, entry)  # 45, 46
    start = offset
    try:
        start, section = sections[0]
        indices = decode_index(entry.index, section, entry.r, entry.d, work)  # 47
        start, section = sections[1]
        dtype = stored_type(entry.domain, element) if isinstance(element, Format) else element
        numbers = entry.r * entry.width
        values = decode_value(entry.value, section, numbers, dtype, zstd)  # 48
        check_bool(values, dtype)  # 48a
        start, section = sections[2]
        if isinstance(dtype, Format):
            if entry.map:
                values = restore(values, decode_packed(section, numbers), dtype)  # 49
            check_coefficients(entry.domain, values, dtype)  # 50
    except WireError as error:
        error.offset, error.entry = start, entry.number  # codecs do not know their position
        raise
    return indices, values
