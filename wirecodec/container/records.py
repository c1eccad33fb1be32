"""Records of an extension block: their checks and bodies (formats/SPEC.md, 2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.based import BASE, REMEDY
from wirecodec.container.extension_writer import FLAGS, HEAD, LATER, RECORD, pad8
from wirecodec.errors import Invalid, Malformed, Unsupported

_LONG = 4096
"""Bytes of a rejected block from which a kernel is faster than Python."""


def _walk(block: memoryview, start: int, at: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (type, flags, first byte, length) of ``count`` records from byte ``at`` to the block's end.

    Raises Malformed if a record is not sound, or if the records do not end with the block.
    """
    for _ in range(count):
        if at + RECORD.size > len(block):
            raise Malformed("extension-record", "a record runs past the block", offset=start + at)
        kind, flags, length = RECORD.unpack_from(block, at)
        body = at + RECORD.size
        stop = body + length + pad8(length)
        if stop > len(block):
            raise Malformed("extension-record", "a record runs past the block", offset=start + at)
        if flags & ~1 or flags != FLAGS.get(kind, flags):
            raise Malformed("extension-record", f"record type {kind} has flags {flags:#x}", offset=start + at)
        if length & 7 and any(block[body + length : stop]):
            raise Malformed(
                "extension-record", "a record's padding is not zero", offset=start + body + length
            )
        yield kind, flags, body, length
        at = stop
    if at != len(block):
        raise Malformed("extension-record", "the records end before the block", offset=start + at)


def find_unknown_records(block: memoryview) -> list[tuple[int, bytes]]:
    """Return (type, body) of the records of a checked block whose types no reader here knows."""
    if not block:
        return []
    walked = _walk(block, 0, HEAD.size, HEAD.unpack_from(block)[1])
    return [
        (kind, bytes(block[body : body + length]))
        for kind, flags, body, length in walked
        if not _is_known(kind, flags, based=True)
    ]


def _is_known(kind: int, flags: int, *, based: bool) -> bool:
    """Tell whether a reader knows a type of record with these flags; ``based`` is as below."""
    return (based and (kind, flags) == (BASE, 1)) or kind in FLAGS or LATER.get(kind) == flags


def find_record_bodies(block: memoryview, start: int, *, based: bool = False) -> dict[int, memoryview]:
    """Find the bodies of an extension block's known records; checks rows 28 to 30 of section 7.

    Args:
        block: at least 16 bytes, a multiple of 8.
        start: the block's offset in the container, for messages.
        based: True to know the record of a patch of weights.

    Returns:
        {record type: view of its body}.

    Raises:
        Malformed, Invalid, Unsupported: a check fails.
    """
    count = HEAD.unpack_from(block)[1]
    if count == 0:
        raise Malformed("extension-record", "the block holds no record", offset=start)
    bodies: dict[int, memoryview] = {}
    before, unknown = -1, None
    for kind, flags, body, length in _walk(block, start, HEAD.size, count):
        if kind <= before:  # types ascend, so the loop ends after at most 65,536 records
            _check_records(block, start, count)
            raise Invalid("extension-order", f"record type {kind} follows {before}", offset=start)
        before = kind
        if _is_known(kind, flags, based=based):
            bodies[kind] = block[body : body + length]
        elif flags & 1 and unknown is None:
            unknown = kind
    if unknown is not None:
        remedy = f"; {REMEDY}" if unknown == BASE else ""
        raise Unsupported("extension", f"critical record of unknown type {unknown}{remedy}", offset=start)
    return bodies


def _check_records(block: memoryview, start: int, count: int) -> None:
    """Check the structure of all records (row 28 of section 7); there may be very many."""
    at = HEAD.size
    if len(block) > _LONG:
        from wirecodec.kernels.cpu import extension

        flags_of = np.array([FLAGS.get(kind, -1) for kind in range(max(FLAGS) + 1)])
        first, count = extension.skip_records(np.frombuffer(block, "<u4"), at // 4, count, flags_of)
        at = 4 * first
    for _ in _walk(block, start, at, count):
        pass


def view_rows(body: memoryview | None, row: np.dtype[Any], code: str) -> Array:
    """Return the rows of a record, or none if it is absent; their reserved fields must be 0.

    Args:
        body: the record's, or None.
        row: a structured type.
        code: of the error.
    """
    if body is None:
        return np.empty(0, row)
    if not body or len(body) % row.itemsize:
        raise Malformed(code, f"{len(body)} bytes are not rows of {row.itemsize}")
    rows = np.frombuffer(body, row)
    if "reserved" in (row.names or ()) and rows["reserved"].any():
        raise Malformed(code, "a reserved field is not 0")
    return rows
