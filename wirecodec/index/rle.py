"""``rle``: the lengths of the bitmap's runs, absent and present by turns (formats/spec/index/rle.md).

After DeepReduce (2021), section 2.2: bit-level run lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.bounds import max_runs, max_varint_bytes
from wirecodec.index.varint import SLACK, surveyed
from wirecodec.limits import DecodeLimits

__all__ = ["RLE", "planned_bytes"]


@dataclass(frozen=True)
class RLE:
    """Two bytes or more a run of present elements: for supports of long runs."""

    name: ClassVar[str] = "rle"
    wire_id: ClassVar[int] = 4

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Two passes over the indices: plan, then write."""
        from wirecodec.kernels.cpu.index import rle

        section = np.empty(planned_bytes(indices) + SLACK, np.uint8)
        rle.write(indices, section)
        return section[:-SLACK]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        runs = max_runs(r, d)
        return max_varint_bytes(runs, d) + max_varint_bytes(runs, r)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Two passes over a copy of the section: survey, then read."""
        from wirecodec.kernels.cpu.index import rle

        framed, count, ended, wrong = surveyed(section)
        if not ended or count % 2:
            raise Malformed("rle-length", f"{count} whole numbers end in {section.size} bytes")
        if wrong:
            raise Malformed("rle-varint", "a number is over-long or takes more than 4 bytes")
        indices = np.empty(r, np.uint32)
        code = rle.read(framed, section.size, d, indices)
        if code == rle.BAD_RANGE:
            raise Invalid("index-range", "a run goes past the chunk")
        if code:
            raise Invalid("rle-count", f"the runs do not hold {r} elements")
        return indices


def planned_bytes(indices: Array) -> int:
    """The length of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    from wirecodec.kernels.cpu.index import rle

    return int(rle.planned(indices))
