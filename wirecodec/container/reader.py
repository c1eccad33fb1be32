"""Reading of a container's header and division of its payload: the checks of formats/SPEC.md, section 7.

``read_header`` makes every check up to row 41. ``sections`` checks and divides each
entry's payload. No allocation and no loop depends on a number before its check.

The caller's buffer may change at any time. So each byte of the header is read once, into a copy. The
checksum, all checks and all later steps use that copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes, read_only
from wirecodec.container.extension_reader import ExtensionReader, Spans, read
from wirecodec.container.writer import (
    CHUNK,
    HAS_EXTENSION,
    LENGTHS,
    MAGIC,
    MAJOR,
    PREFIX,
    PREFIX_BYTES,
    TABLE,
    header_checksum,
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

__all__ = ["ContainerHeader", "Row", "blob_size", "read_header", "sections"]

_ROWS = 1024
"""Rows of the table that are converted to Python objects at a time."""

_ZEROS = bytes(7)


@dataclass(frozen=True, eq=False)
class ContainerHeader:
    """Checked header of a container: prefix, table and extension block, copied from the buffer.

    Attributes:
        minor: the minor version.
        nbytes: length of the whole container.
        table: (n_entries,) the entries' fields, read-only.
        spans: the table's entries by key.
        extension: the reader of the extension block.
        payload: offset of the first section.
    """

    minor: int
    nbytes: int
    table: Array
    spans: Spans
    extension: ExtensionReader
    payload: int


def blob_size(data: Bytes, limits: DecodeLimits = UNLIMITED) -> int:
    """Return total_len of the container that begins with these bytes; reads 24 of them; rows 1 to 6."""
    return _prefix(data[:PREFIX_BYTES].tobytes(), limits).total


class Row(NamedTuple):
    """Row of the table: the fields of ``layout.TABLE`` in their order."""

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
    """Fields of the prefix."""

    minor: int
    flags: int
    n_entries: int
    header_checksum: int
    total: int


def _prefix(data: bytes, limits: DecodeLimits) -> _Prefix:
    """Check the prefix, which may be cut; rows 1 to 6."""
    if len(data) < PREFIX_BYTES:
        raise Truncated("prefix", f"{len(data)} bytes; the prefix takes {PREFIX_BYTES}")
    magic, major, minor, flags, n, crc, total = PREFIX.unpack(data)
    if magic != MAGIC:
        raise Malformed("magic", f"the container begins with {magic.hex()}, not {MAGIC.hex()}", offset=0)
    if major != MAJOR:
        raise Unsupported("major", f"version {major}.{minor}; this reader knows {MAJOR}", offset=4)
    if flags & 0xFF & ~HAS_EXTENSION:
        raise Unsupported("flags", f"flags are {flags:#06x}", offset=6)
    if total > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"{total} bytes; the limit is {limits.max_bytes}", offset=16)
    if total < PREFIX_BYTES or total % 8:
        raise Malformed("total-length", f"a container of {total} bytes", offset=16)
    return _Prefix(minor, flags, n, crc, total)


def read_header(
    data: Bytes, limits: DecodeLimits, *, sizes_trusted: bool = False, whole: bool = True
) -> ContainerHeader:
    """Read and check a container's header: rows 1 to 41 of section 7, in their order.

    Args:
        data: the container's bytes.
        limits: bounds on its cost.
        sizes_trusted: True if a schema will be compared with the tensors; max_expansion does not apply then.
        whole: False if ``data`` may end anywhere after the header.

    Raises:
        WireError: a check fails.
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
        raise Truncated("container", f"{data.size} bytes; the header ends at {stop}")
    fields = data[PREFIX_BYTES:table_stop].tobytes()
    block = length + data[table_stop + len(length) : stop].data
    if header_checksum(first, fields, block) != prefix.header_checksum:
        raise ChecksumMismatch("head-checksum", "the header's checksum does not match", offset=12)
    table = np.frombuffer(fields, TABLE)
    spans = _spans_of_sound(table, fields, stop, prefix.total, limits, sizes_trusted=sizes_trusted)
    if spans is None:
        _check_table(table, stop, prefix.total)
        _check_limits(table, prefix.total, limits, sizes_trusted)
        spans = _spans(table)
    records = read(memoryview(block), table_stop, spans, limits.max_entries)
    return ContainerHeader(prefix.minor, prefix.total, table, spans, records, stop)


def _spans_of_sound(
    table: Array, fields: bytes, payload: int, total: int, limits: DecodeLimits, *, sizes_trusted: bool
) -> Spans | None:
    """Return the spans of a table that passes rows 13 to 27, or None to make the checks one by one.

    One call of a kernel replaces a hundred of NumPy, which take longer than decoding a small tensor.
    """
    from wirecodec.kernels.cpu.table import measure_sound_table

    index_known, value_known = _known(tuple(index_codecs())), _known(_unordered(tuple(value_codecs().items())))
    n, elements, dense = measure_sound_table(
        np.frombuffer(fields, "<u4"), total - payload, CHUNK, len(DTYPES), index_known, value_known
    )
    if n < 0 or elements > limits.max_elements or dense > limits.max_dense:
        return None
    if not sizes_trusted and elements > limits.max_expansion * total:
        return None
    if n != table.size:
        return _spans(table)
    each = np.arange(n, dtype=np.int64)
    return Spans(table["key"], each, np.ones(n, np.int64), table["d"].astype(np.int64), np.zeros(n, np.uint8))


@lru_cache(maxsize=16)
def _known(ids: tuple[int, ...]) -> Array:
    """Return (256,) bool, whether an id is among those given."""
    known = np.zeros(256, np.bool_)
    known[list(ids)] = True
    return read_only(known)


@lru_cache(maxsize=16)
def _unordered(codecs: tuple[tuple[int, Any], ...]) -> tuple[int, ...]:
    """Return the ids of the value codecs that need no map."""
    return tuple(wire_id for wire_id, codec in codecs if not is_ordered(codec))


def _refuse(kind: type[WireError], code: str, wrong: Array, message: str) -> None:
    """Raise an error for the first entry that is wrong."""
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise kind(code, message, entry=entry, offset=PREFIX_BYTES + TABLE.itemsize * entry)


def _unknown(ids: Array, known: Iterable[int]) -> Array:
    """Mark the ids that are not among the known ones."""
    unknown = np.ones(256, bool)
    unknown[list(known)] = False
    return unknown[ids]


def _refuse_unknown(code: str, ids: Array, known: Iterable[int]) -> None:
    """Raise Unsupported with the id of the first codec that is not registered here."""
    unknown = _unknown(ids, known)
    if unknown.any():
        wire_id = int(ids[np.argmax(unknown)])
        hint = "; it is user-defined and must be registered here, too" if wire_id >= 0x80 else ""
        _refuse(Unsupported, code, unknown, f"unknown {code.replace('-', ' ')} 0x{wire_id:02x}{hint}")


def _check_table(table: Array, payload: int, total: int) -> None:
    """Check rows 13 to 24. Sums fit int64: at most 2^26 entries have fields of 32 bits."""
    d, r, base, key = (table[name].astype(np.int64) for name in ("d", "r", "base", "key"))
    lengths = [table[name].astype(np.int64) for name in LENGTHS]
    end = payload + sum(int((n + 7 & -8).sum()) for n in lengths)
    if end != total:
        raise Malformed("layout", f"header and sections have {end} bytes; the container has {total}")
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
    _refuse(Unsupported, "map-codec", wrong, "the map codec is unknown, or not the value codec's")
    _refuse(Invalid, "count", r > d, "an entry stores more elements than it has")
    last = np.ones(table.size, bool)
    last[:-1] = first[1:]
    full = CHUNK // _widths(table)
    broken = (
        (d > full) | (~last & (d != full)) | (first & (table["base"] != 0)) | ((d == 0) & ~(first & last))
    )
    broken[1:] |= ~first[1:] & ((base[1:] != base[:-1] + d[:-1]) | (dtype[1:] != dtype[:-1]))
    _refuse(Invalid, "chunks", broken, "the chunks of a tensor are not contiguous")
    free = (r == 0) | (r == d)
    _refuse(
        Malformed,
        "index-length",
        (lengths[0] == 0) != free,
        "an index section is missing or not needed",
    )
    _refuse(
        Malformed,
        "value-length",
        (lengths[1] == 0) != (r == 0),
        "a value section is missing or not needed",
    )
    needed, numbers = np.zeros(table.size, np.int64), r * _widths(table)
    for mapped in np.flatnonzero(table["map"]).tolist():
        needed[mapped] = map_bytes(int(numbers[mapped]))
    wrong = lengths[2] != needed
    _refuse(Malformed, "map-length", wrong, "a map section is not needed or has a wrong length")


def _widths(table: Array) -> Array:
    """Return the numbers per element of each entry: 2 for complex coefficients, else 1."""
    widths = np.ones(16, np.int64)
    for domain, transform in transforms().items():
        widths[domain] = transform.width
    found: Array = widths[table["dtype"] >> 4]
    return found


def _check_limits(table: Array, total: int, limits: DecodeLimits, sizes_trusted: bool) -> None:
    """Check rows 25 to 27. A transformed tensor with a coefficient stores all its elements."""
    d, r, key = table["d"] * _widths(table), table["r"], table["key"]
    plain = table["dtype"] >> 4 == 0
    restored = ~plain & np.isin(key, key[~plain & (r > 0)])
    dense = int(d.sum())
    elements = int(r[plain].sum(dtype=np.int64)) + int(d[restored].sum())
    if elements > limits.max_elements:
        raise LimitExceeded("max-elements", f"{elements} stored elements; the limit is {limits.max_elements}")
    if dense > limits.max_dense:
        raise LimitExceeded("max-dense", f"{dense} elements; the limit is {limits.max_dense}")
    if not sizes_trusted and elements > limits.max_expansion * total:
        limit = f"the limit without a schema is {limits.max_expansion} per byte"
        raise LimitExceeded("max-expansion", f"{elements} stored elements in {total} bytes; {limit}")


def _spans(table: Array) -> Spans:
    """Collect the size, the chunks and the domain of each key; keys ascend."""
    key = table["key"]
    first = np.ones(key.size, bool)
    first[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    sizes = np.add.reduceat(table["d"].astype(np.int64), starts) if starts.size else starts
    chunks = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=chunks[:-1])
    chunks[-1:] = key.size - starts[-1:]
    return Spans(key[starts], starts, chunks, sizes, table["dtype"][starts] >> 4)


def sections(
    data: Bytes, header: ContainerHeader, done: Array
) -> Iterator[tuple[int, int, Row, list[Bytes]]]:
    """Yield (number, offset, row, [index, value, map section]) of the entries to do; checks rows 45 and 46.

    Args:
        data: the container.
        header: its header.
        done: (n,) bool, whether an entry is skipped.

    A container may have very many small entries. So rows are converted to Python integers in batches, at a
    tenth of the cost of single fields, and padding is compared as bytes.
    """
    raw, at, skip = data.data, header.payload, done.tolist()
    if all(skip):
        return
    for first in range(0, header.table.size, _ROWS):
        for entry, fields in enumerate(header.table[first : first + _ROWS].tolist(), first):
            row = Row(*fields)
            start, parts, bounds = at, [], []
            for length in (row.index_len, row.value_len, row.map_len):
                stop = at + length
                parts.append(data[at:stop])
                at = stop + (-stop & 7)
                bounds.append((stop, at))
            if skip[entry]:
                continue
            if zlib.crc32(raw[start:at]) != row.crc:
                raise ChecksumMismatch(
                    "entry-checksum", "the entry's checksum does not match", entry=entry, offset=start
                )
            for stop, end in bounds:
                if stop < end and raw[stop:end] != _ZEROS[: end - stop]:
                    raise Malformed("padding", "padding is not zero", entry=entry, offset=stop)
            yield entry, start, row, parts
