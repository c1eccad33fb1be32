"""Shared parts of many vectors: tensors of ones, and containers with a single section."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from formats.reference import Row, Tensor, assemble
from formats.reference.container import PREFIX_BYTES, compute_head_checksum
from formats.reference.floats import FLOAT16
from formats.reference.table import ENTRY_BYTES
from formats.reference.writing.assembly import CRC_OFFSET
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import patch

__all__ = ["forge", "gapped", "index_row", "of_index", "of_values", "ones"]


def ones(d: int, indices: Sequence[int]) -> Tensor:
    """Return a float16 tensor with all of its values 1.

    Args:
        d: its size.
        indices: indices of the elements present.
    """
    return Tensor("0", "float16", (d,), indices, b"\x00\x3c" * len(indices))


def gapped(gaps: Sequence[int]) -> Tensor:
    """Return such a tensor with these gaps before its elements, and nothing after the last."""
    indices = []
    at = 0
    for gap in gaps:
        indices.append(at + gap)
        at += gap + 1
    return ones(at + 1, indices)


def index_row(codec: int, r: int, d: int, section: bytes, key: int = 0) -> Row:
    """Return an entry with this index section and small valid values: qsgd zeros of float16."""
    values = write_qsgd(bytes(2 * r), FLOAT16, bits=2, bucket=2**24, norm=0, stream=0)
    return Row(key, 0, d, r, FLOAT16.id, codec, 4, section, values)


def of_index(codec: int, r: int, d: int, section: bytes) -> bytes:
    """Return a container with such an entry."""
    return assemble([index_row(codec, r, d, section)])


def of_values(codec: int, dtype: int, r: int, section: bytes) -> bytes:
    """Return a container of all r elements of a tensor, with this value section."""
    return assemble([Row(0, 0, r, r, dtype, 1, codec, value_section=section)])


def forge(rows: Sequence[Row], ranges: Mapping[int, tuple[int, int]], block: bytes = b"") -> bytes:
    """Return a container in which some entries have the checksum of other bytes of the payload.

    Args:
        rows: the entries.
        ranges: {number of an entry: first byte, and the byte after the last}, counted from the first section.
        block: the extension block.
    """
    data, head = assemble(rows, block), PREFIX_BYTES + ENTRY_BYTES * len(rows) + len(block)
    for number, (start, stop) in ranges.items():
        checksum = zlib.crc32(data[head + start : head + stop])
        data = patch(data, PREFIX_BYTES + ENTRY_BYTES * number + CRC_OFFSET, "I", checksum)
    return patch(data, 12, "I", compute_head_checksum(data, head))
