"""Reading of a container's header and division of its payload: the checks of formats/SPEC.md, section 7.

``read_header`` makes every check up to row 41g; those of the table are in ``table``. ``sections`` checks and
divides each entry's payload. No allocation and no loop depends on a number before its check.

The caller's buffer may change at any time. So each byte of the header is read once, into a copy. The
checksum, all checks and all later steps use that copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wirecodec.arrays import WORD, Array, Bytes, read_only
from wirecodec.container.checksum import compute_checksum
from wirecodec.container.extension_reader import ExtensionReader, read
from wirecodec.container.members import Spans
from wirecodec.container.table import check_limits, check_table, count_keys_of_sound
from wirecodec.container.writer import (
    HAS_EXTENSION,
    IN_RECORD,
    MAGIC,
    MAJOR,
    PREFIX,
    PREFIX_BYTES,
    TABLE,
    header_checksum,
)
from wirecodec.errors import (
    ChecksumMismatch,
    LimitExceeded,
    Malformed,
    Truncated,
    Unsupported,
)
from wirecodec.limits import UNLIMITED, DecodeLimits

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
        block: the extension block.
        types: {key: number} of the tensors whose element type is in the record of types.
    """

    minor: int
    nbytes: int
    table: Array
    spans: Spans
    extension: ExtensionReader
    payload: int
    block: bytes
    types: Mapping[int, int]

    def row(self, fields: tuple[int, ...]) -> Row:
        """Return a row of the table with its element type."""
        row = Row(*fields)
        return row._replace(number=self.types[row.key]) if row.key in self.types else row

    def has_tensors_of(self, other: ContainerHeader) -> bool:
        """Return whether names, shapes, types and chunks of all tensors are those of another header."""
        if self.table.size != other.table.size or self.block != other.block:
            return False
        rows, others = (x.table.view(WORD).reshape(-1, TABLE.itemsize // 4) for x in (self, other))
        return not ((rows ^ others) & _TENSOR_FIELDS).any()


def _mask_of(*fields: str) -> Array:
    """Return the mask of some fields of a row, as words."""
    row = np.zeros(1, TABLE)
    for field in fields:
        row[field] = np.iinfo(TABLE[field]).max
    return read_only(row.view(WORD))


_TENSOR_FIELDS = _mask_of("key", "base", "d", "dtype")


def blob_size(data: Bytes, limits: DecodeLimits = UNLIMITED) -> int:
    """Return total_len of the container that begins with these bytes; reads 24 of them; rows 1 to 6."""
    return _prefix(data[:PREFIX_BYTES].tobytes(), limits).total


class Row(NamedTuple):
    """Row of the table: the fields of ``container.writer.TABLE`` in their order.

    ``number`` is the element type's in the record of types, or 0.
    """

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
    number: int = 0


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
        foreign = "" if data.startswith(MAGIC[: len(data)]) else " are no wirecodec container"
        raise Truncated("prefix", f"{len(data)} bytes{foreign}; the prefix takes {PREFIX_BYTES}")
    magic, major, minor, flags, n, crc, total = PREFIX.unpack(data)
    if magic != MAGIC:
        begins = f"these bytes are no wirecodec container: they begin with {magic.hex()}, not {MAGIC.hex()}"
        raise Malformed("magic", begins, offset=0)
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
    data: Bytes,
    limits: DecodeLimits,
    *,
    sizes_trusted: bool = False,
    whole: bool = True,
    private: bool = False,
    based: bool = False,
) -> ContainerHeader:
    """Read and check a container's header: rows 1 to 41g of section 7, in their order.

    Args:
        data: the container's bytes.
        limits: bounds on its cost.
        sizes_trusted: True if a schema will be compared with the tensors; max_expansion does not apply then.
        whole: False if ``data`` may end anywhere after the header.
        private: True to accept codecs of private ids that are not registered here.
        based: True to accept a patch of weights.

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
    length = data[table_stop : table_stop + 4].tobytes() if extended else b""
    stop = _end_of_extension(length, table_stop, prefix.total) if extended else table_stop
    if data.size < stop:
        raise Truncated("container", f"{data.size} bytes; the header ends at {stop}")
    fields = data[PREFIX_BYTES:table_stop].tobytes()
    block = length + data[table_stop + len(length) : stop].data
    if header_checksum(first, fields, block) != prefix.header_checksum:
        raise ChecksumMismatch("head-checksum", "the header's checksum does not match", offset=12)
    table = np.frombuffer(fields, TABLE)
    keys = count_keys_of_sound(table, stop, prefix.total, limits, sizes_trusted)
    if keys is None:
        check_table(table, stop, prefix.total, private, based)
        check_limits(table, prefix.total, limits, sizes_trusted)
    if keys == 1 and not block and fields[:4] == _FIRST_KEY:
        spans, records = _span_of_one(table), _NO_RECORDS
    else:
        spans = _spans_of_single_chunks(table) if keys == table.size else _spans(table)
        records = read(memoryview(block), table_stop, spans, limits.max_entries, based=based)
    parts = table, spans, records, stop, bytes(block), records.types()
    return ContainerHeader(prefix.minor, prefix.total, *parts)


def _end_of_extension(length: bytes, start: int, total: int) -> int:
    """Return where the extension block ends that starts with its length. Raises Malformed."""
    stop = start + int.from_bytes(length, "little")
    if stop < start + 16 or stop % 8 or stop > total:
        raise Malformed("extension-length", f"an extension block of {stop - start} bytes", offset=start)
    return stop


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
    dtypes = table["dtype"][starts]
    typed = dtypes & 15 == IN_RECORD
    return Spans(key[starts], starts, chunks, sizes, dtypes >> 4, typed if typed.any() else None)


_FIRST_KEY = bytes(4)
_NO_RECORDS = ExtensionReader({})
_PLACE, _ONE, _NO_DOMAIN = (read_only(np.array([x], t)) for x, t in ((0, "i8"), (1, "i8"), (0, "u1")))


def _span_of_one(table: Array) -> Spans:
    """Return the span of one key without a transform."""
    d = table["d"].astype(np.int64)
    if d.size == 1:  # a call less of NumPy, for small tensors
        return Spans(table["key"], _PLACE, _ONE, d, _NO_DOMAIN)
    return Spans(table["key"][:1], _PLACE, np.array([d.size]), d.sum(keepdims=True), _NO_DOMAIN)


def _spans_of_single_chunks(table: Array) -> Spans:
    """Collect the spans of keys with one chunk each and no transform."""
    n = table.size
    sizes = table["d"].astype(np.int64)
    return Spans(table["key"], np.arange(n), np.ones(n, np.int64), sizes, np.zeros(n, np.uint8))


def sections(
    data: Bytes, header: ContainerHeader, done: Array | None = None
) -> Iterator[tuple[int, int, Row, list[Bytes]]]:
    """Yield (number, offset, row, [index, value, map section]) of the entries to do; checks rows 45 and 46.

    Args:
        data: the container.
        header: its header.
        done: (n,) bool, whether an entry is skipped; None if none is.

    A container may have very many small entries. So rows are converted to Python integers in batches, at a
    tenth of the cost of single fields, and padding is compared as bytes.
    """
    raw, at, skip = data.data, header.payload, () if done is None else done.tolist()
    if skip and all(skip):
        return
    for first in range(0, header.table.size, _ROWS):
        for entry, fields in enumerate(header.table[first : first + _ROWS].tolist(), first):
            row = header.row(fields)
            start, parts, bounds = at, [], []
            for length in (row.index_len, row.value_len, row.map_len):
                stop = at + length
                parts.append(data[at:stop])
                at = stop + (-stop & 7)
                bounds.append((stop, at))
            if skip and skip[entry]:
                continue
            if compute_checksum(data, start, at) != row.crc:
                raise ChecksumMismatch(
                    "entry-checksum", "the entry's checksum does not match", entry=entry, offset=start
                )
            for stop, end in bounds:
                if stop < end and raw[stop:end] != _ZEROS[: end - stop]:
                    raise Malformed("padding", "padding is not zero", entry=entry, offset=stop)
            yield entry, start, row, parts
