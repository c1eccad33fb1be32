"""``delta``: gaps between indices as LEB128 varints (formats/spec/index/delta.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.bounds import max_varint_bytes
from wirecodec.index.varint import SLACK, surveyed
from wirecodec.limits import DecodeLimits

__all__ = ["Delta", "planned_bytes"]


@dataclass(frozen=True)
class Delta:
    """Whole bytes: one for a gap below 128, two below 16,384."""

    name: ClassVar[str] = "delta"
    wire_id: ClassVar[int] = 5

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Two passes over the indices: plan, then write."""
        from wirecodec.kernels.cpu.index import delta

        section = np.empty(planned_bytes(indices) + SLACK, np.uint8)
        delta.write(indices, section)
        return section[:-SLACK]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return max_varint_bytes(r, d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Two passes over a copy of the section: survey, then read."""
        from wirecodec.kernels.cpu.index import delta

        framed, count, ended, wrong = surveyed(section)
        if count != r or not ended:
            raise Malformed(
                "delta-length", f"{count} numbers end in {section.size} bytes; the table says {r}"
            )
        if wrong:
            raise Malformed("delta-varint", "a number is over-long or takes more than 4 bytes")
        indices = np.empty(r, np.uint32)
        if (least := delta.read(framed, section.size, indices)) > d:
            raise Invalid("index-range", f"index {least - 1} in a chunk of {d} elements")
        return indices


def planned_bytes(indices: Array) -> int:
    """The length of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    from wirecodec.kernels.cpu.index import delta

    return int(delta.planned(indices))
