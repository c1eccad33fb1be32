"""Containers in a stream: they follow each other, total_len delimits them (formats/SPEC.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Bytes, as_bytes
from wirecodec.container import header
from wirecodec.container.layout import PREFIX_BYTES
from wirecodec.errors import Truncated
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits

__all__ = ["blob_size", "iter_blobs"]


def blob_size(prefix: Any) -> int:
    """Length in bytes of the container that begins with ``prefix``, of which 24 bytes are enough.

    A WireError where it is none.
    """
    return header.blob_size(as_bytes(prefix))


def iter_blobs(source: BinaryIO | Any, *, limits: DecodeLimits | None = None) -> Iterator[Bytes]:
    """The containers of a stream, one after the other, each as a uint8 array, not decoded.

    Args:
        source: an open binary file (anything with ``read``), or a buffer, whose containers are views.
        limits: LimitExceeded before a container above ``max_bytes`` is read.

    Truncated where the last one is cut short; another WireError where something is no container.
    """
    limits = limits or DEFAULT_LIMITS
    if not hasattr(source, "read"):
        data = as_bytes(source)
        while data.size:
            total = header.blob_size(data, limits)
            if data.size < total:
                raise Truncated("container", f"{data.size} bytes of {total}")
            yield data[:total]
            data = data[total:]
        return
    while prefix := _read_fully(source, PREFIX_BYTES):
        total = header.blob_size(as_bytes(prefix), limits)
        rest = _read_fully(source, total - len(prefix))
        if len(prefix) + len(rest) < total:
            raise Truncated("container", f"{len(prefix) + len(rest)} bytes of {total}")
        yield np.frombuffer(prefix + rest, np.uint8)


def _read_fully(source: BinaryIO, count: int) -> bytes:
    """``count`` bytes, fewer only at the end of the file.

    Grown as they come, so that a false length costs nothing.
    """
    found = bytearray()
    while len(found) < count:
        piece = source.read(min(count - len(found), 1 << 20))
        if not piece:
            break
        found += piece
    return bytes(found)
