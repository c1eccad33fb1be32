"""``bitmap``: one bit an element (formats/spec/index/bitmap.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits

__all__ = ["Bitmap", "bitmap_bytes"]


def bitmap_bytes(d: int) -> int:
    """Bytes of the bitmap of ``d`` elements."""
    return -(-d // 8)


@dataclass(frozen=True)
class Bitmap:
    """⌈d/8⌉ bytes, whatever r."""

    name: ClassVar[str] = "bitmap"
    wire_id: ClassVar[int] = 2

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """One pass over the indices."""
        from wirecodec.kernels.cpu.index import bitmap

        words = np.zeros(-(-d // 64), np.uint64)
        bitmap.set_bits(indices, words)
        return words.view(np.uint8)[: bitmap_bytes(d)]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return bitmap_bytes(d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Copy the bitmap, check and count the bits of the copy, then fill."""
        from wirecodec.kernels.cpu.index import bitmap

        if section.size != bitmap_bytes(d):
            raise Malformed("bitmap-length", f"{section.size} bytes for {d} elements")
        words, ends = bitmap.copied_bits(section)
        if d % 64 and int(words[-1]) >> (d % 64):
            raise Malformed("bitmap-tail", f"a bit beyond element {d - 1} is set")
        if ends[-1] != r:
            raise Invalid("bitmap-count", f"{ends[-1]} bits are set; the table says {r}")
        return bitmap.positions(words, ends, np.dtype(np.int32)).view(np.uint32)
