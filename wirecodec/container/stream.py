"""Streams of containers, delimited by their total_len (formats/SPEC.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from wirecodec.arrays import Bytes, as_bytes
from wirecodec.container import reader
from wirecodec.container.writer import PREFIX_BYTES
from wirecodec.errors import Truncated
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits


def blob_size(prefix: Any) -> int:
    """Read the length of a container from its first 24 bytes.

    Args:
        prefix: any buffer of bytes, 24 or more.

    Returns:
        The container's length, in bytes.

    Raises:
        WireError: the bytes are not the prefix of a container.

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
            views.
        limits: ``max_bytes`` bounds each container before it is read; None for the defaults.

    Yields:
        Each container as (n,) uint8.

    Raises:
        Truncated: the last container is cut.
        WireError: bytes are not a container, or a container exceeds the limit.

    Examples:
        >>> import io, numpy as np, wirecodec as wc
        >>> stream = io.BytesIO(b"".join(wc.encode(np.ones(n, "f4")).tobytes() for n in (3, 2)))
        >>> [wc.decode(blob).shape for blob in wc.iter_blobs(stream)]
        [(3,), (2,)]
    """
    limits = limits or DEFAULT_LIMITS
    if not hasattr(source, "read"):
        data = as_bytes(source)
        while data.size:
            total = reader.blob_size(data, limits)
            if data.size < total:
                raise Truncated("container", f"{data.size} bytes of {total}")
            yield data[:total]
            data = data[total:]
        return
    while prefix := _read_fully(source, PREFIX_BYTES):
        total = reader.blob_size(as_bytes(prefix), limits)
        rest = _read_fully(source, total - len(prefix))
        if len(prefix) + len(rest) < total:
            raise Truncated("container", f"{len(prefix) + len(rest)} bytes of {total}")
        yield np.frombuffer(prefix + rest, np.uint8)


def _read_fully(source: BinaryIO, count: int) -> bytes:
    """Read ``count`` bytes, or fewer at the end of the file.

    The buffer grows as bytes arrive, so that a false length allocates no memory.
    """
    buffer = bytearray()
    while len(buffer) < count:
        piece = source.read(min(count - len(buffer), 1 << 20))
        if not piece:
            break
        buffer += piece
    return bytes(buffer)
