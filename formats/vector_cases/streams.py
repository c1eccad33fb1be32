"""Streams of containers and units (spec/stream.md); each case is a file of vectors/streams."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from formats.reference import write
from formats.reference.stream import write_unit
from formats.streams import UNITS, reference_of, split_all, write_parts
from formats.vector_cases.case import Case, patch, sparse

NONE, MOST = 0, 2**32 - 1
"""Applications that are never used."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    unit, other = write_unit(NONE, b"abc"), write_unit(MOST, bytes(range(8)))
    first, second = write([sparse("a", 4, [1])]), write([], tag=b"t")
    for id, about, data in (
        ("empty", "No part.", b""),
        ("container", "One container.", first),
        ("containers", "Two containers.", first + second),
        ("unit", "A unit of three bytes, padded.", unit),
        ("unit-empty", "A unit without a body.", write_unit(NONE, b"")),
        ("unit-8", "A unit of eight bytes, of the highest number.", other),
        ("parts", "Units before, between and after containers.", unit + first + other + unit + second + unit),
        ("container-24", "A container of 24 bytes, the least.", write([])),
        (
            "container-damaged",
            "A container whose head is damaged, between others: splitting does not decode it.",
            first + patch(first, 12, "I", 0) + second,
        ),
        (
            "container-later",
            "A container of minor version 255 with flag bit 15, before another.",
            write([], minor=255, flags=1 << 15) + first,
        ),
    ):
        yield _case(f"stream-{id}", about, data)
    for id, about, kind, code, data in (
        ("prefix", "A byte after a container.", "Truncated", "prefix", first + b"\xf7"),
        ("zeros", "Zero bytes after a container are not padding.", "Malformed", "magic", first + bytes(32)),
        ("zeros-few", "Eight zero bytes after a unit.", "Truncated", "prefix", unit + bytes(8)),
        ("prefix-unit", "A unit is cut in its first 24 bytes.", "Truncated", "prefix", unit[:23]),
        ("magic", "Another magic after a unit.", "Malformed", "magic", unit + patch(first, 3, "B", 0x48)),
        ("magic-unit", "A magic between both.", "Malformed", "magic", patch(unit, 3, "B", 0x56)),
        ("major", "A container of version 255.", "Unsupported", "major", unit + patch(first, 4, "B", 255)),
        ("flags", "Flag bit 7.", "Unsupported", "flags", patch(first, 6, "B", 0x80)),
        (
            "total-length",
            "total_len of a container is 16.",
            "Malformed",
            "total-length",
            patch(first, 16, "Q", 16),
        ),
        (
            "total-length-4",
            "total_len is no multiple of 8.",
            "Malformed",
            "total-length",
            patch(first, 16, "Q", 28),
        ),
        ("truncated", "The second container is cut.", "Truncated", "container", first + second[:-8]),
        ("unit-length", "total_len is 8 less.", "Malformed", "unit-length", _seal(patch(unit, 16, "Q", 24))),
        (
            "unit-length-more",
            "8 more.",
            "Malformed",
            "unit-length",
            _seal(patch(unit + bytes(8), 16, "Q", 40)),
        ),
        ("unit-length-0", "total_len is 0.", "Malformed", "unit-length", _seal(patch(unit, 16, "Q", 0))),
        (
            "unit-length-odd",
            "total_len without padding.",
            "Malformed",
            "unit-length",
            _seal(patch(unit, 16, "Q", 27)),
        ),
        (
            "unit-length-wrapping",
            "2^32 - 1 bytes: the sum wraps in 32 bits.",
            "Malformed",
            "unit-length",
            _seal(patch(patch(write_unit(NONE, b""), 8, "I", 2**32 - 1), 16, "Q", 24)),
        ),
        ("unit-truncated", "The last byte is missing.", "Truncated", "unit", first + unit[:-1]),
        ("unit-truncated-body", "Only the prefix is there.", "Truncated", "unit", unit[:24]),
        (
            "unit-checksum",
            "The body is damaged.",
            "ChecksumMismatch",
            "unit-checksum",
            patch(unit, 24, "B", 0),
        ),
        (
            "unit-checksum-own",
            "The checksum is 0.",
            "ChecksumMismatch",
            "unit-checksum",
            patch(unit, 12, "I", 0),
        ),
        (
            "unit-checksum-empty",
            "The checksum of a unit without a body is 0.",
            "ChecksumMismatch",
            "unit-checksum",
            patch(write_unit(NONE, b""), 12, "I", 0),
        ),
        (
            "unit-checksum-number",
            "The application's number is damaged.",
            "ChecksumMismatch",
            "unit-checksum",
            patch(unit, 4, "I", MOST),
        ),
        (
            "unit-checksum-first",
            "The checksum comes before the padding.",
            "ChecksumMismatch",
            "unit-checksum",
            patch(unit, 31, "B", 1),
        ),
        (
            "unit-padding",
            "The last byte is not zero.",
            "Malformed",
            "unit-padding",
            _seal(patch(unit, 31, "B", 1)),
        ),
        (
            "unit-padding-first",
            "The first byte after the body.",
            "Malformed",
            "unit-padding",
            _seal(patch(unit, 27, "B", 1)),
        ),
    ):
        yield _case(f"stream-{id}", about, data, kind, code)
    limit = {"max_bytes": len(unit)}
    yield _case("stream-max-bytes-met", "The limit is inclusive.", unit + unit, limits=limit)
    long = write_unit(NONE, bytes(9))
    about = "A unit that exceeds the limit by 8."
    yield _case("stream-max-bytes", about, unit + long, "LimitExceeded", "max-bytes", limits=limit)
    about = "The limit comes before the length and the end."
    wrong = patch(unit, 16, "Q", 2**63 + 1)
    yield _case("stream-max-bytes-first", about, wrong, "LimitExceeded", "max-bytes", limits=limit)
    about = "The limit is inclusive for containers, too."
    yield _case("stream-max-bytes-container-met", about, first, limits={"max_bytes": len(first)})
    about = "A container that exceeds the limit."
    yield _case(
        "stream-max-bytes-container", about, first, "LimitExceeded", "max-bytes", limits={"max_bytes": 24}
    )


def _seal(unit: bytes) -> bytes:
    """Return a unit with the checksum of its bytes."""
    crc = zlib.crc32(unit[16:], zlib.crc32(unit[:12]))
    return unit[:12] + struct.pack("<I", crc) + unit[16:]


def _case(
    id: str,
    about: str,
    data: bytes,
    kind: str = "ok",
    code: str | None = None,
    limits: dict[str, int] | None = None,
) -> Case:
    """Build a case; ``parts`` are those before a refusal."""
    found = split_all(reference_of(UNITS), data, limits or {})
    if (found.result, found.code) != (kind, code):
        raise AssertionError(f"{id} gives {found}, not {kind} {code}")
    fields: dict[str, Any] = {"id": id, "about": about, "result": kind} | ({"code": code} if code else {})
    fields |= {"limits": limits} if limits else {}
    return Case(id, fields | {"hex": data.hex(), "parts": write_parts(found.parts)})
