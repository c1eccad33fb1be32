"""Reading a container's head, and cutting its payload: the checks of formats/SPEC.md, section 7.

``open_head`` makes every check up to row 41 and returns a ``Head``; ``sections`` checks each entry's
payload and cuts it. Nothing is allocated or looped over on a number that has not been checked by then.

The caller's buffer may change at any time. So each byte of the head is read once, into a copy; the checksum,
all checks and all later steps use that copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes
from wirecodec.container.extension_reader import Block, Spans, read
from wirecodec.container.layout import (
    CHUNK,
    HAS_EXTENSION,
    LENGTHS,
    MAGIC,
    MAJOR,
    PREFIX,
    PREFIX_BYTES,
    TABLE,
    head_crc,
)
from wirecodec.errors import (
    ChecksumMismatch,
    Invalid,
    LimitExceeded,
    Malformed,
    Truncated,
    Unsupported,
    WireError,
)
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.registry import index_codecs, transforms, value_codecs
from wirecodec.value.base import is_ordered
from wirecodec.value.sort_permutation import PACKED, map_bytes

__all__ = ["Head", "Row", "blob_size", "open_head", "sections"]

_ROWS = 1024
"""Rows of the table that are Python objects at the same time."""

_ZEROS = bytes(7)


@dataclass(frozen=True, eq=False)
class Head:
    """A container's checked prefix, table and extension block, copied from the buffer.

    Attributes:
        minor: the minor version.
        nbytes: length of the whole container.
        table: (n_entries,) the entries' fields, read-only.
        spans: what the table says of each key.
        block: the extension block.
        payload: offset of the first section.
    """

    minor: int
    nbytes: int
    table: Array
    spans: Spans
    block: Block
    payload: int


def blob_size(data: Bytes, limits: DecodeLimits = UNLIMITED) -> int:
    """total_len of the container that begins with these bytes, 24 of which are read; rows 1 to 6."""
    return _prefix(data[:PREFIX_BYTES].tobytes(), limits).total


class Row(NamedTuple):
    """A row of the table; the fields of ``container.TABLE`` in their order."""

    key: int
    crc: int
    base: int
    d: int
    r: int
    index_len: int
    value_len: int
    map_len: int
    dtype: int
    index_codec: int
    value_codec: int
    map_codec: int


class _Prefix(NamedTuple):
    minor: int
    flags: int
    n_entries: int
    head_crc: int
    total: int


def _prefix(data: bytes, limits: DecodeLimits) -> _Prefix:
    """Read the prefix, or as much of it as there is; rows 1 to 6."""
    if len(data) < PREFIX_BYTES:
        raise Truncated("prefix", f"{len(data)} bytes; the prefix takes {PREFIX_BYTES}")
    magic, major, minor, flags, n, crc, total = PREFIX.unpack(data)
    if magic != MAGIC:
        raise Malformed("magic", f"the container begins with {magic.hex()}, not {MAGIC.hex()}", offset=0)
    if major != MAJOR:
        raise Unsupported("major", f"version {major}.{minor}; this reader knows {MAJOR}", offset=4)
    if flags & 0xFF & ~HAS_EXTENSION:
        raise Unsupported("flags", f"flags {flags:#06x}", offset=6)
    if total > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"{total} bytes; the limit is {limits.max_bytes}", offset=16)
    if total < PREFIX_BYTES or total % 8:
        raise Malformed("total-length", f"a container of {total} bytes", offset=16)
    return _Prefix(minor, flags, n, crc, total)


def open_head(data: Bytes, limits: DecodeLimits, *, vouched: bool = False, whole: bool = True) -> Head:
    """Rows 1 to 41 of section 7, in order, for the container that ``data`` is.

    ``vouched``: a schema will be held against the tensors, so max_expansion does not apply. ``whole`` False:
    ``data`` may end anywhere after the head.
    """
    first = data[:PREFIX_BYTES].tobytes()
    prefix = _prefix(first, limits)
    if whole and data.size < prefix.total:
        raise Truncated("container", f"{data.size} bytes of {prefix.total}")
    if whole and data.size > prefix.total:
        raise Malformed(
            "trailing", f"{data.size - prefix.total} bytes after the container", offset=prefix.total
        )
    if prefix.n_entries > limits.max_entries:
        raise LimitExceeded(
            "max-entries", f"{prefix.n_entries} entries; the limit is {limits.max_entries}", offset=8
        )
    table_stop = PREFIX_BYTES + TABLE.itemsize * prefix.n_entries
    extended = prefix.flags & HAS_EXTENSION
    if table_stop + (8 if extended else 0) > prefix.total:
        raise Malformed("table-length", f"{prefix.n_entries} entries in {prefix.total} bytes", offset=8)
    if data.size < table_stop + (4 if extended else 0):
        raise Truncated("container", f"{data.size} bytes; the table ends at {table_stop}")
    stop = table_stop
    length = data[table_stop : table_stop + 4].tobytes() if extended else b""
    if extended:
        stop += int.from_bytes(length, "little")
        if stop < table_stop + 16 or stop % 8 or stop > prefix.total:
            raise Malformed(
                "extension-length", f"an extension block of {stop - table_stop} bytes", offset=table_stop
            )
    if data.size < stop:
        raise Truncated("container", f"{data.size} bytes; the head ends at {stop}")
    fields = data[PREFIX_BYTES:table_stop].tobytes()
    block = length + data[table_stop + len(length) : stop].data
    if head_crc(first, fields, block) != prefix.head_crc:
        raise ChecksumMismatch("head-checksum", "the head's checksum differs", offset=12)
    table = np.frombuffer(fields, TABLE)
    _check_table(table, stop, prefix.total)
    _check_limits(table, prefix.total, limits, vouched)
    spans = _spans(table)
    records = read(memoryview(block), table_stop, spans, limits.max_entries)
    return Head(prefix.minor, prefix.total, table, spans, records, stop)


def _refuse(kind: type[WireError], code: str, wrong: Array, message: str) -> None:
    """Row ``code``: raise for the first entry that is wrong."""
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise kind(code, message, entry=entry, offset=PREFIX_BYTES + TABLE.itemsize * entry)


def _unknown(ids: Array, known: Iterable[int]) -> Array:
    unknown = np.ones(256, bool)
    unknown[list(known)] = False
    return unknown[ids]


def _refuse_unknown(code: str, ids: Array, known: Iterable[int]) -> None:
    """Unsupported for the first codec that is not registered here, with its id."""
    unknown = _unknown(ids, known)
    if unknown.any():
        wire_id = int(ids[np.argmax(unknown)])
        hint = "; an application's own, to be registered here, too" if wire_id >= 0x80 else ""
        _refuse(Unsupported, code, unknown, f"unknown {code.replace('-', ' ')} 0x{wire_id:02x}{hint}")


def _check_table(table: Array, payload: int, total: int) -> None:
    """Rows 13 to 24. Counts fit int64: at most 2^26 entries fit a container, their fields 32 bits."""
    d, r, base, key = (table[name].astype(np.int64) for name in ("d", "r", "base", "key"))
    lengths = [table[name].astype(np.int64) for name in LENGTHS]
    taken = sum(int((n + 7 & -8).sum()) for n in lengths)
    if payload + taken != total:
        raise Malformed(
            "layout", f"head and sections take {payload + taken} bytes; the container has {total}"
        )
    first = np.ones(table.size, bool)
    first[1:] = key[1:] != key[:-1]
    unordered = np.zeros(table.size, bool)
    unordered[1:] = (key[1:] < key[:-1]) | (~first[1:] & (table["base"][1:] <= table["base"][:-1]))
    _refuse(Invalid, "table-order", unordered, "the table does not ascend by key and base")
    dtype = table["dtype"]
    nibble = dtype & 15
    _refuse(Unsupported, "dtype", (nibble == 0) | (nibble > len(DTYPES)), "unknown element type")
    _refuse(Unsupported, "domain", _unknown(dtype >> 4, (0, *transforms())), "unknown domain")
    _refuse_unknown("index-codec", table["index"], index_codecs())
    _refuse_unknown("value-codec", table["value"], value_codecs())
    maps = np.zeros(256, np.uint8)
    maps[[wire_id for wire_id, codec in value_codecs().items() if is_ordered(codec)]] = PACKED
    wrong = table["map"] != maps[table["value"]]
    _refuse(Unsupported, "map-codec", wrong, "a map codec that is unknown, or not the value codec's")
    _refuse(Invalid, "count", r > d, "more elements are stored than there are")
    last = np.ones(table.size, bool)
    last[:-1] = first[1:]
    most = CHUNK // _widths(table)
    broken = (
        (d > most) | (~last & (d != most)) | (first & (table["base"] != 0)) | ((d == 0) & ~(first & last))
    )
    broken[1:] |= ~first[1:] & ((base[1:] != base[:-1] + d[:-1]) | (dtype[1:] != dtype[:-1]))
    _refuse(Invalid, "chunks", broken, "the chunks of a tensor do not fit together")
    free = (r == 0) | (r == d)
    _refuse(
        Malformed,
        "index-length",
        (lengths[0] == 0) != free,
        "an index section that is not needed, or missing",
    )
    _refuse(
        Malformed,
        "value-length",
        (lengths[1] == 0) != (r == 0),
        "a value section that is not needed, or missing",
    )
    needed, numbers = np.zeros(table.size, np.int64), r * _widths(table)
    for mapped in np.flatnonzero(table["map"]).tolist():
        needed[mapped] = map_bytes(int(numbers[mapped]))
    wrong = lengths[2] != needed
    _refuse(Malformed, "map-length", wrong, "a map section that is not needed, or of a wrong length")


def _widths(table: Array) -> Array:
    """The numbers of an element of each entry: 2 where it is a complex coefficient."""
    widths = np.ones(16, np.int64)
    for domain, transform in transforms().items():
        widths[domain] = transform.width
    found: Array = widths[table["dtype"] >> 4]
    return found


def _check_limits(table: Array, total: int, limits: DecodeLimits, vouched: bool) -> None:
    """Rows 25 to 27. Of a transformed tensor all elements are stored, once it has a coefficient."""
    d, r, key = table["d"] * _widths(table), table["r"], table["key"]
    plain = table["dtype"] >> 4 == 0
    restored = ~plain & np.isin(key, key[~plain & (r > 0)])
    dense = int(d.sum())
    elements = int(r[plain].sum(dtype=np.int64)) + int(d[restored].sum())
    if elements > limits.max_elements:
        raise LimitExceeded("max-elements", f"{elements} stored elements; the limit is {limits.max_elements}")
    if dense > limits.max_dense:
        raise LimitExceeded("max-dense", f"{dense} elements; the limit is {limits.max_dense}")
    if not vouched and elements > limits.max_expansion * total:
        limit = f"the limit is {limits.max_expansion} a byte where no schema vouches for more"
        raise LimitExceeded("max-expansion", f"{elements} stored elements in {total} bytes; {limit}")


def _spans(table: Array) -> Spans:
    """The size, the chunks and the domain of each key, which ascend."""
    key = table["key"]
    first = np.ones(key.size, bool)
    first[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    sizes = np.add.reduceat(table["d"].astype(np.int64), starts) if starts.size else starts
    chunks = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=chunks[:-1])
    chunks[-1:] = key.size - starts[-1:]
    return Spans(key[starts], starts, chunks, sizes, table["dtype"][starts] >> 4)


def sections(data: Bytes, head: Head) -> Iterator[tuple[int, int, Row, list[Bytes]]]:
    """(entry number, offset, table row, [index, value, map section]) of every entry; rows 45 and 46.

    A container may have very many small entries. So rows are turned into Python's integers some at a time,
    which costs a tenth of looking up the fields one by one, and padding is compared as bytes.
    """
    octets, at = data.data, head.payload
    for first in range(0, head.table.size, _ROWS):
        for entry, fields in enumerate(head.table[first : first + _ROWS].tolist(), first):
            row = Row(*fields)
            start, parts, bounds = at, [], []
            for length in (row.index_len, row.value_len, row.map_len):
                stop = at + length
                parts.append(data[at:stop])
                at = stop + (-stop & 7)
                bounds.append((stop, at))
            if zlib.crc32(octets[start:at]) != row.crc:
                raise ChecksumMismatch(
                    "entry-checksum", "the entry's checksum differs", entry=entry, offset=start
                )
            for stop, end in bounds:
                if stop < end and octets[stop:end] != _ZEROS[: end - stop]:
                    raise Malformed("padding", "padding is not zero", entry=entry, offset=stop)
            yield entry, start, row, parts
