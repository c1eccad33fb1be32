"""``auto-index``: for each chunk the smaller of rice and bitmap.

It has no id of its own: the chosen codec stands on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wirecodec.arrays import Array
from wirecodec.index.base import IndexCodec
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.rice import Rice, planned_bytes

__all__ = ["AutoIndex"]


@dataclass(frozen=True)
class AutoIndex:
    """Rice, or the bitmap where that is not larger.

    Exact sizes are compared, so the choice is the same everywhere.
    """

    name: ClassVar[str] = "auto-index"

    def resolve(self, indices: Array | None, d: int) -> IndexCodec:
        """The smaller codec for this chunk.

        Sparse chunks cost nothing extra; denser ones a planning pass of rice, whose exact size is compared.
        """
        if indices is None:
            return Bitmap()
        # Rice takes under log2(d/r) + 4 bits an index, so here it is the smaller without a plan.
        sparse = d >= 16 * indices.size + 1024
        return Rice() if sparse or planned_bytes(indices) < bitmap_bytes(d) else Bitmap()
