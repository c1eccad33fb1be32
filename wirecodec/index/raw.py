"""``raw-index``: the indices as u16 or u32 (formats/spec/index/raw-index.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.limits import DecodeLimits


def ascending_below(indices: Array, d: int) -> Array:
    """Return ``indices`` if they ascend strictly and are below ``d``.

    Raises:
        Invalid: they do not.
    """
    from wirecodec.kernels.cpu import support

    if (at := support.find_disorder(indices)) >= 0:
        raise Invalid("index-order", f"index {indices[at]} follows {indices[at - 1]}")
    if indices.size and int(indices[-1]) >= d:
        raise Invalid("index-range", f"index {indices[-1]} in a chunk of {d} elements")
    return indices


@dataclass(frozen=True)
class RawIndex(IndexCodec):
    """Raw index codec: each index as a little-endian integer.

    It has no parameters. A section takes 16 bits per index if d <= 65,536 and 32 otherwise.

    Source: formats/spec/index/raw-index.md.

    Raises:
        Malformed: in decoding, the section's length is not r times the width.
        Invalid: in decoding, the indices do not ascend strictly, or one is not below d.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.codecs.RawIndex().encode(np.array([3, 7, 20], np.uint32), 64, 0).tolist()
        [3, 0, 7, 0, 20, 0]
    """

    name: ClassVar[str] = "raw-index"
    wire_id: ClassVar[int] = 1

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section; see ``IndexCodec.encode``."""
        return indices.astype(_width(d)).view(np.uint8)

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return r * _width(d).itemsize

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a copy of a section; see ``IndexCodec.decode``."""
        width = _width(d)
        if section.size != r * width.itemsize:
            raise Malformed("raw-index-length", f"{section.size} bytes for {r} indices of {width.itemsize}")
        return ascending_below(section.view(width).astype(np.uint32), d)


def _width(d: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u2") if d <= 2**16 else np.dtype("<u4")
