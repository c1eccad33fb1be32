"""``raw-index``: the indices as u16 or u32 (formats/spec/index/raw-index.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits

__all__ = ["RawIndex", "ascending_below"]


def ascending_below(indices: Array, d: int) -> Array:
    """``indices`` themselves, if they ascend strictly and stay below ``d``; Invalid otherwise."""
    from wirecodec.kernels.cpu import support

    if (at := support.first_disorder(indices)) >= 0:
        raise Invalid("index-order", f"index {indices[at]} follows {indices[at - 1]}")
    if indices.size and int(indices[-1]) >= d:
        raise Invalid("index-range", f"index {indices[-1]} in a chunk of {d} elements")
    return indices


@dataclass(frozen=True)
class RawIndex:
    """2 bytes an index where d <= 65,536, else 4."""

    name: ClassVar[str] = "raw-index"
    wire_id: ClassVar[int] = 1

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """The indices, narrowed where they fit."""
        return indices.astype(_width(d)).view(np.uint8)

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return r * _width(d).itemsize

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """The indices, copied."""
        width = _width(d)
        if section.size != r * width.itemsize:
            raise Malformed("raw-index-length", f"{section.size} bytes for {r} indices of {width.itemsize}")
        return ascending_below(section.view(width).astype(np.uint32), d)


def _width(d: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u2") if d <= 2**16 else np.dtype("<u4")
