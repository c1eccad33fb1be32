"""Index codec 8, binned: writing (spec/index/binned.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.bits import pack_stream


@dataclass(frozen=True)
class Binned:
    """Index codec 8; ``bin`` is T."""

    id: ClassVar[int] = 8
    bin: int = 50

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"binned(bin={self.bin})"

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write T, and a record per present element and per empty bin."""
        bins: list[list[int]] = [[] for _ in range(indices[-1] // self.bin + 1)]
        for i in indices:
            bins[i // self.bin].append(i % self.bin)
        w = self.bin.bit_length()
        records = [
            number | (n + 1 == max(1, len(numbers))) << w
            for numbers in bins
            for n, number in enumerate(numbers or [self.bin])
        ]
        return struct.pack("<H", self.bin) + pack_stream(records, w + 1, 1)
