"""``deflate``: lossless compression by zlib (formats/spec/value/deflate.md)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_flag, as_integer, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.byte_shuffle import read_content, write_content

_RAW_STREAM = -15
"""zlib's code for a stream without header and checksum, with the largest window."""


@dataclass(frozen=True)
class Deflate(ValueCodec):
    """DEFLATE value codec.

    Lossless, including the bits of NaN and Inf. Bits per value depend on the data; incompressible values take
    8 bits per byte and a few bytes per chunk. Source: RFC 1951; formats/spec/value/deflate.md.

    Args:
        level: compression level, 1 (fastest) to 9 (smallest). It is not stored.
        shuffle: if True, the bytes are shuffled first, which makes gradients smaller.

    Raises:
        EncodeError: if a parameter is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, np.nan, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | deflate(level=9)")).values
        array([ 1., nan,  3.], dtype=float32)
    """

    name: ClassVar[str] = "deflate"
    wire_id: ClassVar[int] = 6
    of_any_type: ClassVar[bool] = True
    carries_nonfinite: ClassVar[bool] = True
    level: int = 6
    shuffle: bool = True

    def __post_init__(self) -> None:
        level = as_integer(self.level, "deflate: level")
        if not 1 <= level <= 9:
            raise EncodeError(f"deflate: level is {level}; it must be 1 to 9")
        set_fields(self, level=level, shuffle=as_flag(self.shuffle, "deflate: shuffle"))

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as the shuffle flag, one byte, and a DEFLATE stream."""
        coder = zlib.compressobj(self.level, zlib.DEFLATED, _RAW_STREAM)
        parts = (bytes([self.shuffle]), coder.compress(write_content(values, self.shuffle)), coder.flush())
        return np.frombuffer(b"".join(parts), np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        size = r * dtype.itemsize
        # zlib's deflateBound for any of its settings; it also holds for libraries that replace zlib.
        return 1 + size + -(-size // 8) + -(-size // 64) + 5

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode a section; decompression stops one byte after the expected size."""
        if section[0] > 1:
            raise Malformed("deflate-parameter", f"shuffle is {section[0]}; it must be 0 or 1")
        size = r * dtype.itemsize
        decoder = zlib.decompressobj(_RAW_STREAM)
        try:
            content = decoder.decompress(section[1:].data, size + 1)
        except zlib.error as error:
            raise Malformed("deflate-stream", str(error)) from None
        if len(content) > size or not decoder.eof:
            raise Malformed(
                "deflate-stream",
                f"the stream continues after {size} bytes"
                if len(content) > size
                else "the stream does not end",
            )
        if len(content) < size:
            raise Invalid("deflate-length", f"{len(content)} bytes for {r} values of {dtype.itemsize} bytes")
        if decoder.unused_data:
            raise Malformed("deflate-trailing", f"{len(decoder.unused_data)} bytes after the stream")
        return read_content(content, bool(section[0]), dtype)
