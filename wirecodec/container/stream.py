"""Streams of containers and units, delimited by their total_len (formats/spec/stream.md)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container import reader
from wirecodec.container.writer import PREFIX_BYTES
from wirecodec.errors import ChecksumMismatch, LimitExceeded, Malformed, Truncated
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.tensors import as_bytes

_UNIT_MAGIC = b"\xf7WCU"
_UNIT = struct.Struct("<4sIIIQ")
UNIT_BYTES = _UNIT.size
"""Bytes of a unit before its body."""
_PIECE = 2**20
"""Bytes that are read at a time."""


@dataclass(frozen=True)
class Unit:
    """Data of an application between the containers of a stream; readers without interest skip it.

    Args:
        application: number that sender and receiver agree on. Only tests use 0 and 2^32 - 1.
        body: its content, at most 2^32 - 1 bytes.

    Raises:
        ValueError: an argument is not valid.

    Examples:
        >>> import io, numpy as np, wirecodec as wc
        >>> unit = wc.Unit(0x4C4F4753, b"epoch 7")
        >>> stream = unit.to_bytes() + wc.encode(np.ones(3, "f4")).tobytes()
        >>> [part if isinstance(part, wc.Unit) else part.nbytes for part in wc.iter_stream(stream)]
        [Unit(application=1280264019, body=b'epoch 7'), 80]
        >>> len(list(wc.iter_blobs(stream)))
        1
    """

    application: int
    body: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.application < 2**32:
            raise ValueError(f"application is {self.application}; it must be from 0 to 2^32 - 1")
        if len(self.body) >= 2**32:
            raise ValueError(f"the body has {len(self.body)} bytes; it must have fewer than 2^32")

    @property
    def nbytes(self) -> int:
        """Length of the unit in a stream."""
        return _UNIT.size + len(self.body) + (-len(self.body) & 7)

    def to_bytes(self) -> bytes:
        """Return the unit's bytes, a multiple of 8."""
        head = _UNIT.pack(_UNIT_MAGIC, self.application, len(self.body), 0, self.nbytes)
        body = bytes(self.body) + bytes(-len(self.body) & 7)
        return head[:12] + struct.pack("<I", _unit_checksum(head, body)) + head[16:] + body


def _unit_checksum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head[:12] + head[16:]))


def blob_size(prefix: Any) -> int:
    """Read the length of a container from its first 24 bytes.

    Args:
        prefix: any buffer of bytes, 24 or more.

    Returns:
        The container's length, in bytes.

    Raises:
        WireError: the bytes are not the prefix of a container. That of a unit is refused, too.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> blob = wc.encode(np.ones(1000, "f4"))
        >>> wc.blob_size(blob[:24]) == blob.nbytes
        True
    """
    return reader.blob_size(as_bytes(prefix))


def iter_blobs(source: BinaryIO | Any, *, limits: DecodeLimits | None = None) -> Iterator[Bytes]:
    """Yield the containers of a stream, without decoding them.

    Args:
        source: an open binary file (any object with ``read``), or a buffer, whose containers are yielded as
            views. Units between containers are skipped; ``iter_stream`` yields them.
        limits: ``max_bytes`` bounds each container and each unit before it is read; None for the defaults.

    Yields:
        Each container as (n,) uint8.

    Raises:
        Truncated: the last container is cut.
        WireError: bytes are not a container or a unit, or one exceeds the limit.

    Examples:
        >>> import io, numpy as np, wirecodec as wc
        >>> stream = io.BytesIO(b"".join(wc.encode(np.ones(n, "f4")).tobytes() for n in (3, 2)))
        >>> [wc.decode(blob).shape for blob in wc.iter_blobs(stream)]
        [(3,), (2,)]
    """
    for part in _iter_parts(source, limits or DEFAULT_LIMITS, units_read=False):
        if not isinstance(part, Unit):
            yield part


def iter_stream(source: BinaryIO | Any, *, limits: DecodeLimits | None = None) -> Iterator[Bytes | Unit]:
    """Yield the containers and units of a stream, in their order; arguments and errors as for ``iter_blobs``.

    Args:
        source: as for ``iter_blobs``.
        limits: ``max_bytes`` bounds each container and each unit; None for the defaults.

    Yields:
        Each container as (n,) uint8, and each unit as a ``Unit``, whose checksum is verified.

    Raises:
        WireError: as ``iter_blobs`` does, or a unit is damaged.

    Examples:
        >>> import wirecodec as wc
        >>> list(wc.iter_stream(wc.Unit(7, b"abc").to_bytes()))
        [Unit(application=7, body=b'abc')]
    """
    return _iter_parts(source, limits or DEFAULT_LIMITS, units_read=True)


def _iter_parts(source: Any, limits: DecodeLimits, *, units_read: bool) -> Iterator[Bytes | Unit]:
    """Yield the parts of a stream; without ``units_read``, units are skipped and not held in memory."""
    taken = _File(source) if hasattr(source, "read") else _Buffer(as_bytes(source))
    while (prefix := taken.take(PREFIX_BYTES)).size:
        head = prefix.tobytes()
        if not head.startswith(_UNIT_MAGIC) or len(head) < PREFIX_BYTES:
            total = reader.blob_size(prefix, limits)
            blob = taken.join(prefix, total)
            if blob.size < total:
                raise Truncated("container", f"{blob.size} bytes of {total}")
            yield blob
            continue
        _, _, length, _, total = _UNIT.unpack(head)
        if total > limits.max_bytes:
            raise LimitExceeded("max-bytes", f"a unit of {total} bytes; the limit is {limits.max_bytes}")
        if total != PREFIX_BYTES + length + (-length & 7):
            raise Malformed("unit-length", f"a unit of {total} bytes with a body of {length}")
        if not units_read:
            taken.skip(total - PREFIX_BYTES)
            continue
        body = taken.take(total - PREFIX_BYTES).tobytes()
        if len(body) < total - PREFIX_BYTES:
            raise Truncated("unit", f"{PREFIX_BYTES + len(body)} bytes of {total}")
        yield read_unit(head + body)


def read_unit(data: bytes) -> Unit:
    """Read a unit that fills some bytes, at least 24: rows 5, 7 and 8 of the page. Raises a WireError."""
    head, body = data[:UNIT_BYTES], data[UNIT_BYTES:]
    _, application, length, checksum, total = _UNIT.unpack(head)
    if total != len(data) or total != UNIT_BYTES + length + (-length & 7):
        raise Malformed("unit-length", f"a unit of {total} bytes with a body of {length}")
    if _unit_checksum(head, body) != checksum:
        raise ChecksumMismatch("unit-checksum", "the unit's checksum does not match")
    if any(body[length:]):
        raise Malformed("unit-padding", "padding is not zero")
    return Unit(application, body[:length])


class _Buffer:
    """Bytes in memory, of which views are taken."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> Bytes:
        """Return the next bytes; fewer at the end."""
        taken = self.data[self.at : self.at + count]
        self.at += taken.size
        return taken

    def join(self, first: Bytes, total: int) -> Bytes:
        """Return the bytes from ``first``, which was just taken, up to a total length."""
        start = self.at - first.size
        self.at = min(start + total, self.data.size)
        return self.data[start : self.at]

    def skip(self, count: int) -> None:
        """Skip bytes of a unit. Raises Truncated."""
        if self.take(count).size < count:
            raise Truncated("unit", "the stream ends within a unit")


class _File:
    """Open binary file, of which bytes are read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def take(self, count: int) -> Bytes:
        """Return the next bytes; fewer at the end."""
        return np.frombuffer(_read_fully(self.file, count), np.uint8)

    def join(self, first: Bytes, total: int) -> Bytes:
        """Return the bytes from ``first``, which was just taken, up to a total length."""
        return np.frombuffer(first.tobytes() + _read_fully(self.file, total - first.size), np.uint8)

    def skip(self, count: int) -> None:
        """Skip bytes of a unit. Raises Truncated."""
        while count:
            piece = self.file.read(min(count, _PIECE))
            if not piece:
                raise Truncated("unit", "the stream ends within a unit")
            count -= len(piece)


def _read_fully(source: BinaryIO, count: int) -> bytes:
    """Read ``count`` bytes, or fewer at the end of the file.

    The buffer grows as bytes arrive, so that a false length allocates no memory.
    """
    buffer = bytearray()
    while len(buffer) < count:
        piece = source.read(min(count - len(buffer), _PIECE))
        if not piece:
            break
        buffer += piece
    return bytes(buffer)
