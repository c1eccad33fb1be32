"""Value codec 6, deflate: decoding (spec/value/deflate.md), with zlib of the standard library."""

from __future__ import annotations

import zlib

from formats.reference.element_types import ElementType
from formats.reference.errors import Invalid, Malformed
from formats.reference.value.byte_shuffle import decode_content

RAW = -15
"""A stream without zlib's header and checksum."""


def decode_deflate(section: bytes, r: int, dtype: ElementType) -> bytes:
    """Decode a DEFLATE stream.

    Args:
        section: bytes of the value section, at least one.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    shuffle = section[0]
    if shuffle not in (0, 1):
        raise Malformed("deflate-parameter", f"shuffle is {shuffle}; it must be 0 or 1")
    size = r * dtype.itemsize
    inflater = zlib.decompressobj(RAW)
    try:
        content = inflater.decompress(
            section[1:], size + 1
        )  # one byte more than wanted, to detect a longer stream
    except zlib.error as error:
        raise Malformed("deflate-stream", str(error)) from error
    if not inflater.eof or len(content) > size:
        raise Malformed("deflate-stream", f"the stream does not end after {len(content)} bytes")
    if len(content) < size:
        raise Invalid("deflate-length", f"{len(content)} bytes for {r} values")
    if inflater.unused_data:
        raise Malformed("deflate-trailing", f"{len(inflater.unused_data)} bytes after the stream")
    return decode_content(content, shuffle == 1, dtype.itemsize)
