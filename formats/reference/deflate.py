"""Value codec 6, deflate (spec/value/deflate.md), by the zlib of the standard library."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

from .errors import Invalid, Malformed
from .floats import Format
from .planes import from_content, to_content

RAW = -15
"""A stream without zlib's header and checksum."""


def decode_deflate(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 6: a DEFLATE stream.

    Args:
        section: the bytes of the value section, at least one.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    shuffle = section[0]
    if shuffle not in (0, 1):
        raise Malformed("deflate-parameter", f"shuffle {shuffle}")
    size = r * dtype.itemsize
    inflater = zlib.decompressobj(RAW)
    try:
        content = inflater.decompress(section[1:], size + 1)  # never more, whatever the stream could give
    except zlib.error as error:
        raise Malformed("deflate-stream", str(error)) from error
    if not inflater.eof or len(content) > size:
        raise Malformed("deflate-stream", f"no end after {len(content)} bytes")
    if len(content) < size:
        raise Invalid("deflate-length", f"{len(content)} bytes of {r} values")
    if inflater.unused_data:
        raise Malformed("deflate-trailing", f"{len(inflater.unused_data)} bytes after the stream")
    return from_content(content, shuffle == 1, dtype.itemsize)


@dataclass(frozen=True)
class Deflate:
    """Value codec 6, as the writer takes it; ``strategy`` and ``flush`` make streams of other blocks.

    The bytes are those of the zlib that is there, so no vector is made of them.
    """

    id: ClassVar[int] = 6
    scheme: ClassVar[str] = "deflate"
    shuffle: bool = True
    level: int = 6
    strategy: int = zlib.Z_DEFAULT_STRATEGY
    flush: int = 0
    """Bytes of content after which a block ends, 0 for the compressor's own choice."""

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """The elements, compressed."""
        content = to_content(values, self.shuffle, dtype.itemsize)
        deflater = zlib.compressobj(self.level, zlib.DEFLATED, RAW, 8, self.strategy)
        out = bytes([self.shuffle])
        step = self.flush or len(content)
        for i in range(0, len(content), step):
            out += deflater.compress(content[i : i + step])
            out += deflater.flush(zlib.Z_FULL_FLUSH) if self.flush else b""
        return out + deflater.flush()
