"""Indexes and ends of closed streams (spec/stream.md, section 6); each case is a file of vectors/indexes."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from formats.conformance import refusal_of
from formats.indexes import reference
from formats.reference import write
from formats.reference.stream import write_unit
from formats.reference.stream_index import END_BYTES, PADDING, Entry, Part, write_end, write_index
from formats.vector_cases.case import Case, patch, sparse

W = Entry("w", "float32", (4,))
HEAD = 24
"""Bytes of a unit before its body."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    plain_blob = write([sparse("w", 4, [1])], names=False)
    blob, other = write([sparse("w", 4, [1])]), write([sparse("a", 4, [1]), sparse("b", 8, [2])])
    one = _part(0, blob, W)
    index = write_index([one])
    at = len(blob)
    closed = blob + index + write_end(index, at)
    pad = write_unit(PADDING, bytes(40))
    two = [
        _part(64, blob, W),
        _part(64 + at, other, Entry("a", "float32", (4,)), Entry("b", "float32", (8,))),
    ]
    second = write_index(two)
    both = pad + blob + other
    again = _part(len(closed), blob, W)
    joined = write_index([one, again])
    last = closed + blob
    types = [
        Entry("", "float64", ()),
        Entry("é", "bool", (1, 0, 2**40)),
        Entry("x", "float4_e2m1fn_x2", (3,)),
    ]
    odd = write_index([_part(0, blob, *types)])
    none = write_index([])
    plain = write_index([Part(0, at, bytes(32), (W,))])
    for id, about, data in (
        ("one", "One container of one tensor.", closed),
        (
            "two",
            "Padding, and two containers, one of two tensors.",
            both + second + write_end(second, len(both)),
        ),
        (
            "appended",
            "A name occurs again; the older index and end remain.",
            last + joined + write_end(joined, len(last)),
        ),
        ("empty", "An index without a container.", none + write_end(none, 0)),
        ("types", "Tensors of no, three and one dimension; an empty name.", blob + odd + write_end(odd, at)),
        ("part-digest", "The digest of a part is not compared.", blob + plain + write_end(plain, at)),
        ("unlisted", "A container that the index leaves out.", blob + none + write_end(none, at)),
    ):
        yield _case(id, about, data)
    cut = "Truncated", "stream-end"
    wrong, bad = ("Malformed", "end"), ("Malformed", "index")
    end_at = len(closed) - END_BYTES
    body = end_at + HEAD
    for id, about, refusal, data in (
        ("no-bytes", "An empty stream.", cut, b""),
        ("cut", "The last 8 bytes are missing.", cut, closed[:-8]),
        ("open", "A stream without an end.", cut, blob),
        ("cut-after-index", "The end is missing.", cut, closed[:end_at]),
        ("end-short", "The first 87 bytes of an end.", cut, closed[end_at:-1]),
        (
            "end-application",
            "The last unit is of another application.",
            cut,
            blob + index + write_unit(3, bytes(64)),
        ),
        ("end-magic", "The last 88 bytes begin with another magic.", cut, patch(closed, end_at, "B", 0)),
        ("end-body", "The body of the end has 63 bytes.", cut, closed[:end_at] + write_unit(2, bytes(63))),
        (
            "end-total",
            "total_len of the end is 96.",
            ("Malformed", "unit-length"),
            _reseal(closed, -8, "Q", 96),
        ),
        (
            "end-checksum",
            "A damaged byte.",
            ("ChecksumMismatch", "unit-checksum"),
            patch(closed, body + 40, "B", 1),
        ),
        ("end-form", "`form` of the end is 2.", wrong, _reseal(closed, 0, "B", 2)),
        ("end-reserved", "A reserved byte of the end is 1.", wrong, _reseal(closed, 7, "B", 1)),
        ("end-length", "stream_len is 8 less.", wrong, _reseal(closed, 24, "Q", len(closed) - 8)),
        ("end-length-more", "stream_len is 8 more.", wrong, _reseal(closed, 24, "Q", len(closed) + 8)),
        ("end-before", "Eight bytes before the stream.", wrong, bytes(8) + closed),
        ("end-offset", "index_offset is no multiple of 8.", wrong, _reseal(closed, 8, "Q", at - 4)),
        (
            "end-offset-far",
            "index_offset + index_len exceeds the end's offset by 8.",
            wrong,
            _reseal(closed, 8, "Q", at + 8),
        ),
        (
            "end-offset-wrapping",
            "index_offset + index_len wraps in 64 bits.",
            wrong,
            _reseal(closed, 8, "Q", 2**64 - 8),
        ),
        ("end-index-short", "index_len is 32.", wrong, _reseal(closed, 16, "Q", 32)),
        ("end-index-odd", "index_len is no multiple of 8.", wrong, _reseal(closed, 16, "Q", len(index) - 4)),
        (
            "index-digest",
            "The digest is not the index's.",
            ("ChecksumMismatch", "index-digest"),
            _reseal(closed, 32, "B", 0),
        ),
        (
            "index-digest-last",
            "The digest differs from the index's in its last byte.",
            ("ChecksumMismatch", "index-digest"),
            _reseal(closed, 63, "B", closed[body + 63] ^ 1),
        ),
        (
            "index-is-container",
            "The end names a container, whose bytes 4 to 7 are 1.",
            bad,
            _end_of(plain_blob, 0),
        ),
        (
            "index-application",
            "The index has the application 3.",
            bad,
            _end_of(blob + _seal(patch(index, 4, "I", 3)), at),
        ),
        ("index-cut", "index_len is 8 less than total_len.", bad, _end_of(blob + index, at, len(index) - 8)),
        (
            "index-unit-length",
            "body_len does not fit total_len.",
            ("Malformed", "unit-length"),
            _end_of(blob + _seal(patch(index, 8, "I", 1)), at),
        ),
        (
            "index-checksum",
            "The checksum of the index is 0.",
            ("ChecksumMismatch", "unit-checksum"),
            _end_of(blob + patch(index, 12, "I", 0), at),
        ),
        (
            "index-padding",
            "Padding of the index is not zero.",
            ("Malformed", "unit-padding"),
            _end_of(blob + _seal(patch(index, len(index) - 1, "B", 1)), at),
        ),
        ("index-form", "`form` of the index is 2.", bad, _with(blob, index, 0, "B", 2)),
        ("index-reserved", "A reserved byte is 1.", bad, _with(blob, index, 7, "B", 1)),
        ("index-short", "A body of 12 bytes.", bad, _end_of(blob + write_unit(1, b"\1" + bytes(11)), at)),
        ("index-parts", "More parts than bytes.", bad, _with(blob, index, 8, "I", 2**32 - 1)),
        ("index-tensors", "More tensors than bytes.", bad, _with(blob, index, 12, "I", 2**32 - 1)),
        ("index-name-long", "A name is a byte longer than the body.", bad, _with(blob, index, 68, "I", 2)),
        ("index-name-short", "A byte after the names.", bad, _with(blob, index, 68, "I", 0)),
        ("index-ndim", "A dimension more.", bad, _with(blob, index, 73, "B", 2)),
        (
            "index-part-offset",
            "An offset is no multiple of 8.",
            bad,
            _with(blob, patch(index, HEAD + 24, "Q", at - 8), 16, "Q", 4),
        ),
        ("index-part-length", "A length is no multiple of 8.", bad, _with(blob, index, 24, "Q", at - 4)),
        ("index-part-small", "A length is 16.", bad, _with(blob, index, 24, "Q", 16)),
        (
            "index-part-far",
            "A part ends 8 bytes after index_offset.",
            bad,
            _with(blob, index, 24, "Q", at + 8),
        ),
        (
            "index-part-wrapping",
            "The end of a part wraps in 64 bits.",
            bad,
            _with(blob, patch(index, HEAD + 16, "Q", 8), 24, "Q", 2**64 - 8),
        ),
        (
            "index-part-overlap",
            "The second part begins in the first.",
            bad,
            _with(both, second, 64, "Q", 64 + at - 8),
        ),
        ("index-tensor-part", "A tensor of part 1 of 1.", bad, _with(blob, index, 64, "I", 1)),
        (
            "index-tensor-order",
            "A tensor of part 0 after one of part 1.",
            bad,
            _with(both, second, 112 + 24, "I", 0),
        ),
        ("index-tensor-reserved", "A reserved byte of a tensor is 1.", bad, _with(blob, index, 75, "B", 1)),
        ("index-dtype", "Element type 14.", ("Unsupported", "dtype"), _with(blob, index, 72, "B", 14)),
        ("index-dtype-0", "Element type 0.", ("Unsupported", "dtype"), _with(blob, index, 72, "B", 0)),
        (
            "index-name-bytes",
            "A name is not UTF-8.",
            ("Invalid", "index-names"),
            _with(blob, index, 84, "B", 0xFF),
        ),
    ):
        yield _case(id, about, data, *refusal)
    limit = {"max_bytes": len(index)}
    yield _case("max-bytes-met", "The limit is inclusive.", closed, limits=limit)
    about = "An index that exceeds the limit; its digest is wrong, too."
    limit = {"max_bytes": len(index) - 1}
    yield _case("max-bytes", about, _reseal(closed, 32, "B", 0), "LimitExceeded", "max-bytes", limit)


def _part(offset: int, blob: bytes, *tensors: Entry) -> Part:
    return Part(offset, len(blob), hashlib.sha256(blob).digest(), tensors)


def _seal(unit: bytes) -> bytes:
    """Return a unit with the checksum of its bytes."""
    crc = zlib.crc32(unit[16:], zlib.crc32(unit[:12]))
    return unit[:12] + struct.pack("<I", crc) + unit[16:]


def _reseal(stream: bytes, at: int, form: str, value: int) -> bytes:
    """Return a closed stream with another field of its end, ``at`` bytes after the start of the body."""
    rest, end = stream[:-END_BYTES], stream[-END_BYTES:]
    return rest + _seal(patch(end, HEAD + at, form, value))


def _end_of(data: bytes, offset: int, length: int | None = None) -> bytes:
    """Return a stream whose end names the bytes from ``offset`` on, or ``length`` of them."""
    named = data[offset:] if length is None else data[offset : offset + length]
    end = write_end(named, offset)
    return data + _seal(patch(end, HEAD + 24, "Q", len(data) + len(end)))


def _with(blobs: bytes, index: bytes, at: int, form: str, value: int) -> bytes:
    """Return a closed stream with another field of its index, ``at`` bytes after the start of the body."""
    return _end_of(blobs + _seal(patch(index, HEAD + at, form, value)), len(blobs))


def _case(
    id: str,
    about: str,
    data: bytes,
    kind: str = "ok",
    code: str | None = None,
    limits: dict[str, int] | None = None,
) -> Case:
    """Build a case."""
    index: list[Any] | None = None
    found: tuple[str, str | None] = "ok", None
    try:
        index = reference(data, limits or {})
    except Exception as error:
        found = refusal_of(error)
    if found != (kind, code):
        raise AssertionError(f"{id} gives {found}, not {kind} {code}")
    fields: dict[str, Any] = {"id": f"closed-{id}", "about": about}
    fields |= {"result": kind} | ({"code": code} if code else {}) | ({"limits": limits} if limits else {})
    return Case(fields["id"], fields | {"hex": data.hex(), "index": index})
