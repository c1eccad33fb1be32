"""Index codec 1, raw-index: writing (spec/index/raw-index.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.index.raw_index import SHORT_INDICES


@dataclass(frozen=True)
class RawIndex:
    """Index codec 1."""

    id: ClassVar[int] = 1

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the indices as integers."""
        return write_raw_index(indices, d)


def write_raw_index(indices: Sequence[int], d: int) -> bytes:
    """Write the indices as u16 or u32."""
    return struct.pack(f"<{len(indices)}{'H' if d <= SHORT_INDICES else 'I'}", *indices)
