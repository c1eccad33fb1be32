"""Streams of containers and units: spec/stream.md.

``split`` makes the checks of its section 2. It decodes no container.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from formats.reference.container import INCOMPATIBLE, MAGIC, PREFIX_BYTES, pad8
from formats.reference.errors import ChecksumMismatch, LimitExceeded, Malformed, Truncated, Unsupported
from formats.reference.limits import DEFAULT_LIMITS, Limits

UNIT_MAGIC = b"\xf7\x57\x43\x55"


@dataclass(frozen=True)
class Unit:
    """Data of an application between containers."""

    application: int
    body: bytes


def split(data: bytes, limits: Limits = DEFAULT_LIMITS, *, units_read: bool = True) -> Iterator[bytes | Unit]:
    """Yield the parts of a stream: containers as bytes, and units.

    Args:
        data: the stream.
        limits: limits of the caller, for each part.
        units_read: whether units are checked and yielded; otherwise they are skipped (rows 1, 2 and 4-6).

    Raises:
        WireError: for the first check that fails. All parts before were yielded.
    """
    at = 0
    while at < len(data):
        rest = data[at:]
        if len(rest) < PREFIX_BYTES:
            raise Truncated("prefix", f"{len(rest)} bytes are left", offset=at)  # 1
        magic, second, _, crc, total_len = struct.unpack_from("<4sIIIQ", rest)
        if magic not in (MAGIC, UNIT_MAGIC):
            raise Malformed("magic", f"the magic is {magic.hex()}", offset=at)  # 2
        if magic == MAGIC:
            _check_container(rest, limits)  # 3
            yield rest[:total_len]
        else:
            _check_unit(rest, limits)  # 4-6
            if units_read:
                yield Unit(second, _read_body(rest[:total_len], crc))  # 7-8
        at += total_len


def _check_container(rest: bytes, limits: Limits) -> None:
    """Make the checks of rows 3-7 of SPEC section 7."""
    major, _, flags, total_len = struct.unpack_from("<4xBBH8xQ", rest)
    if major != 1:
        raise Unsupported("major", f"major is {major}; it must be 1")
    if flags & INCOMPATIBLE:
        raise Unsupported("flags", f"unknown flags {flags & INCOMPATIBLE:#06x}")
    if total_len > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"total_len is {total_len}; the limit is {limits.max_bytes}")
    if total_len < PREFIX_BYTES or total_len % 8:
        raise Malformed("total-length", f"total_len is {total_len}")
    if len(rest) < total_len:
        raise Truncated("container", f"{len(rest)} of {total_len} bytes are present")


def _check_unit(rest: bytes, limits: Limits) -> None:
    """Make the checks of a unit's lengths."""
    body_len, total_len = struct.unpack_from("<8xI4xQ", rest)
    if total_len > limits.max_bytes:
        raise LimitExceeded("max-bytes", f"total_len is {total_len}; the limit is {limits.max_bytes}")  # 4
    if total_len != PREFIX_BYTES + body_len + pad8(body_len):
        raise Malformed("unit-length", f"total_len is {total_len}, body_len {body_len}")  # 5
    if len(rest) < total_len:
        raise Truncated("unit", f"{len(rest)} of {total_len} bytes are present")  # 6


def _read_body(unit: bytes, crc: int) -> bytes:
    """Make the checks of a unit's content; return its body."""
    if zlib.crc32(unit[16:], zlib.crc32(unit[:12])) != crc:
        raise ChecksumMismatch("unit-checksum", "the unit is damaged")  # 7
    (body_len,) = struct.unpack_from("<8xI", unit)
    end = PREFIX_BYTES + body_len
    if any(unit[end:]):
        raise Malformed("unit-padding", "padding is not zero")  # 8
    return unit[PREFIX_BYTES:end]


def write_unit(application: int, body: bytes) -> bytes:
    """Return the bytes of a unit."""
    head = struct.pack("<4sII", UNIT_MAGIC, application, len(body))
    rest = struct.pack("<Q", PREFIX_BYTES + len(body) + pad8(len(body))) + body + bytes(pad8(len(body)))
    return head + struct.pack("<I", zlib.crc32(rest, zlib.crc32(head))) + rest
