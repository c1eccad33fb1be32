"""``deflate``: the values through the compressor of zlib, losslessly (formats/spec/value/deflate.md)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_flag, as_integer, settle
from wirecodec.value.byte_shuffle import from_content, to_content

__all__ = ["Deflate"]

_RAW = -15
"""For zlib: a stream without header and checksum, of the greatest window."""


@dataclass(frozen=True)
class Deflate:
    """Every bit comes back, those of NaN and Inf included.

    Args:
        level: 1, fast, to 9, small; readers need not know it.
        shuffle: whether the values are cut into byte planes first, which makes gradients smaller.
    """

    name: ClassVar[str] = "deflate"
    wire_id: ClassVar[int] = 6
    carries_nonfinite: ClassVar[bool] = True
    level: int = 6
    shuffle: bool = True

    def __post_init__(self) -> None:
        level = as_integer(self.level, "deflate: level")
        if not 1 <= level <= 9:
            raise EncodeError(f"deflate: level is {level}; it must be from 1 to 9")
        settle(self, level=level, shuffle=as_flag(self.shuffle, "deflate: shuffle"))

    def encode(self, values: Array, stream: int) -> Bytes:
        """A byte that says whether there are planes, and the stream."""
        coder = zlib.compressobj(self.level, zlib.DEFLATED, _RAW)
        parts = (bytes([self.shuffle]), coder.compress(to_content(values, self.shuffle)), coder.flush())
        return np.frombuffer(b"".join(parts), np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        size = r * dtype.itemsize
        # zlib's deflateBound for any of its settings; it also holds for libraries that replace zlib.
        return 1 + size + -(-size // 8) + -(-size // 64) + 5

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The values, after no more than a byte beyond them was decompressed."""
        if section[0] > 1:
            raise Malformed("deflate-parameter", f"shuffle is {section[0]}")
        size = r * dtype.itemsize
        decoder = zlib.decompressobj(_RAW)
        try:
            content = decoder.decompress(section[1:].data, size + 1)
        except zlib.error as error:
            raise Malformed("deflate-stream", str(error)) from None
        if len(content) > size or not decoder.eof:
            what = "does not end" if len(content) <= size else f"goes on after {size} bytes"
            raise Malformed("deflate-stream", f"the stream {what}")
        if len(content) < size:
            raise Invalid("deflate-length", f"{len(content)} bytes for {r} values of {dtype.itemsize}")
        if decoder.unused_data:
            raise Malformed("deflate-trailing", f"{len(decoder.unused_data)} bytes after the stream")
        return from_content(content, bool(section[0]), dtype)
