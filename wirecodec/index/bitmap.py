"""``bitmap``: one bit per element (formats/spec/index/bitmap.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.limits import DecodeLimits


def bitmap_bytes(d: int) -> int:
    """Return the length in bytes of a bitmap of ``d`` elements."""
    return -(-d // 8)


@dataclass(frozen=True)
class Bitmap(IndexCodec):
    """Bitmap index codec: one bit per element of the chunk.

    It has no parameters. A section takes ⌈d/8⌉ bytes, or d/r bits per index, whatever the indices are. It is
    the smallest codec near density ½, and the fastest to write.

    Source: formats/spec/index/bitmap.md.

    Raises:
        Malformed: in decoding, the length is not ⌈d/8⌉, or a bit beyond element d - 1 is set.
        Invalid: in decoding, the number of set bits is not r.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.codecs.Bitmap().encode(np.array([3, 7, 20], np.uint32), 64, 0).tolist()
        [136, 0, 16, 0, 0, 0, 0, 0]
    """

    name: ClassVar[str] = "bitmap"
    wire_id: ClassVar[int] = 2

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in one pass; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.index import bitmap

        words = np.zeros(-(-d // 64), np.uint64)
        bitmap.set_bits(indices, words)
        return words.view(np.uint8)[: bitmap_bytes(d)]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return bitmap_bytes(d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a copy of a section, whose bits are counted first; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import bitmap

        if section.size != bitmap_bytes(d):
            raise Malformed("bitmap-length", f"{section.size} bytes for {d} elements")
        words, ends = bitmap.copy_bitmap(section)
        if d % 64 and int(words[-1]) >> (d % 64):
            raise Malformed("bitmap-tail", f"a bit beyond element {d - 1} is set")
        if ends[-1] != r:
            raise Invalid("bitmap-count", f"{ends[-1]} bits are set; the table has {r}")
        return bitmap.find_positions(words, ends, np.dtype(np.int32)).view(np.uint32)
