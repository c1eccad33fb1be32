"""Index codec 2, bitmap: writing (spec/index/bitmap.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Bitmap:
    """Index codec 2."""

    id: ClassVar[int] = 2

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write one bit per element."""
        return write_bitmap(indices, d)


def write_bitmap(indices: Sequence[int], d: int) -> bytes:
    """Write one bit per element."""
    out = bytearray((d + 7) // 8)
    for i in indices:
        out[i // 8] |= 1 << i % 8
    return bytes(out)
