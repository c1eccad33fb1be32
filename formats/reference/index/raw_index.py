"""Index codec 1, raw-index: decoding (spec/index/raw-index.md)."""

from __future__ import annotations

import itertools
import struct

from formats.reference.errors import Invalid, Malformed

SHORT_INDICES = 65_536


def decode_raw_index(section: bytes, r: int, d: int) -> list[int]:
    """Decode u16 or u32 integers.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    width, letter = (2, "H") if d <= SHORT_INDICES else (4, "I")
    if len(section) != width * r:
        raise Malformed("raw-index-length", f"{len(section)} bytes for {r} indices")
    indices = list(struct.unpack(f"<{r}{letter}", section))
    for last, index in itertools.pairwise(indices):
        if index <= last:
            raise Invalid("index-order", f"index {index} follows {last}")
    if indices[-1] >= d:
        raise Invalid("index-range", f"index {indices[-1]} is not below {d}")
    return indices
