"""Value codec 6, deflate: writing (spec/value/deflate.md)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.element_types import ElementType
from formats.reference.value.byte_shuffle import encode_content
from formats.reference.value.deflate import RAW


@dataclass(frozen=True)
class Deflate:
    """Value codec 6; ``strategy`` and ``flush`` make streams of other block types.

    The bytes depend on the installed zlib, so no vector requires them of a writer.
    """

    id: ClassVar[int] = 6
    scheme: ClassVar[str] = "deflate"
    shuffle: bool = True
    level: int = 6
    strategy: int = zlib.Z_DEFAULT_STRATEGY
    flush: int = 0
    """Bytes of content per block; 0 lets the compressor choose."""

    def write_section(self, values: bytes, dtype: ElementType, stream: int) -> bytes:
        """Write the elements, compressed."""
        content = encode_content(values, self.shuffle, dtype.itemsize)
        deflater = zlib.compressobj(self.level, zlib.DEFLATED, RAW, 8, self.strategy)
        out = bytes([self.shuffle])
        step = self.flush or len(content)
        for i in range(0, len(content), step):
            out += deflater.compress(content[i : i + step])
            out += deflater.flush(zlib.Z_FULL_FLUSH) if self.flush else b""
        return out + deflater.flush()
