"""Decoding of many entries by one call per codec; ``cpu.chunk`` decodes the others."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.checksum import is_intact
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.writer import LENGTHS
from wirecodec.cpu.columns import DecodedBatch
from wirecodec.cpu.forms import MIN_TENSORS
from wirecodec.element_types import DTYPES
from wirecodec.index.base import IndexCodec
from wirecodec.registry import EXPERIMENTAL, index_codec, value_codec
from wirecodec.value.base import ValueCodec

MAX_ENTRIES = 2304
"""Rows of the table whose entries are decoded together.

It bounds the memory for a container of very many tiny tensors, and the entries that are decoded twice if one
is invalid and its codec does not know which.
"""


def decode_batches(data: Bytes, header: ContainerHeader) -> list[DecodedBatch]:
    """Decode the entries that a batch can take, after the checks of rows 45 and 46 of formats/SPEC.md, 2.

    Returns the batches before the first entry that fails a check, as far as codecs know which it is. Decoding
    the other entries one by one then finds the first entry at fault.
    """
    batches: list[DecodedBatch] = []
    start = header.payload
    if header.table.size < MIN_TENSORS:
        return batches
    for first in range(0, header.table.size, MAX_ENTRIES):
        rows = header.table[first : first + MAX_ENTRIES]
        lengths = np.array([rows[name] for name in LENGTHS], np.int64)
        ends = start + np.cumsum(((lengths + 7) & -8).T).reshape(-1, len(LENGTHS)).T
        starts = np.r_[start, ends[-1, :-1]]
        for here in _group_entries(rows):
            columns = (starts[here], lengths.take(here, axis=1))
            batch = None
            if is_intact(data, rows["crc"][here], *columns, ends.take(here, axis=1)):
                batch = _decode_batch(data, rows, first, here, *columns)
            if batch is None:
                return batches
            batches.append(batch)
            if batch.entries.size < here.size:
                return batches
        start = int(ends[-1, -1])
    return batches


def _group_entries(table: Array) -> list[Array]:
    """Return the numbers of the entries of each batch: plain, not empty, whose codecs need no limit."""
    r, full = table["r"], table["r"] == table["d"]
    kinds = np.where(full, 0, table["index"]).astype(np.int64) << 16 | table["value"].astype(np.int64) << 8
    kinds |= table["dtype"]
    kinds[(r == 0) | (table["dtype"] > len(DTYPES))] = -1  # transforms, and types of the record
    groups = []
    one_kind = kinds.size and (kinds == kinds[0]).all()
    for kind in kinds[:1].tolist() if one_kind else np.unique(kinds).tolist():
        if kind < 0:
            continue
        index = index_codec(kind >> 16) if kind >> 16 else None
        if not _can_decode_together(index, value_codec(kind >> 8 & 0xFF)):
            continue
        groups.append(np.flatnonzero(kinds == kind))
    return groups


def _can_decode_together(index: type[IndexCodec] | None, value: type[ValueCodec]) -> bool:
    """Tell whether sections can be decoded without limits; ``index`` is None for full tensors."""
    if value.wire_id >= EXPERIMENTAL or value.ordered:
        return False
    return index is None or (index.wire_id < EXPERIMENTAL and not index.has_work)


def _decode_batch(
    data: Bytes, table: Array, first: int, here: Array, starts: Array, lengths: Array
) -> DecodedBatch | None:
    """Decode entries of the same codecs and dtype.

    If one fails a check of a codec, return those before it; or None if they are not known.

    Args:
        data: the container.
        table: rows of its table.
        first: number of the first row.
        here: (n,) i64, the entries' rows.
        starts: (n,) their offsets.
        lengths: (3, n) bytes of each section.
    """
    one = table[here[0]]
    index, value, dtype = int(one["index"]), int(one["value"]), DTYPES[int(one["dtype"]) - 1]
    words, starts = data.view("<u4"), starts >> 2
    counts = table["r"][here].astype(np.int64)
    cuts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=cuts[1:])
    indices, index_places, n = None, np.full(counts.size, -1), counts.size
    if counts[0] < one["d"]:
        sizes = table["d"][here].astype(np.int64)
        indices = index_codec(index).decode_batch(words, starts, lengths[0], sizes, cuts)
        index_places = cuts[:-1]
        if indices is None:
            return None
        n = int(np.searchsorted(cuts, indices.size))
    starts = starts + ((lengths[0] + 7) >> 3 << 1)
    decoded = value_codec(value).decode_batch(words, starts[:n], lengths[1, :n], cuts[: n + 1], dtype)
    if decoded is None:
        return None
    values, places = decoded
    n = places.size
    return DecodedBatch(first + here[:n], counts[:n], indices, index_places[:n], values, places)
