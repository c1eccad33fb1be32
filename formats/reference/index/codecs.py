"""The table of index codecs, and the supports without bytes (SPEC section 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from formats.reference.errors import LimitExceeded
from formats.reference.index.binned import decode_binned
from formats.reference.index.bitmap import decode_bitmap
from formats.reference.index.bloom import count_bloom_work, decode_bloom
from formats.reference.index.context import count_context_work, decode_context
from formats.reference.index.delta import decode_delta
from formats.reference.index.elias_fano import decode_elias_fano
from formats.reference.index.huffman import decode_huffman
from formats.reference.index.raw_index import decode_raw_index
from formats.reference.index.rice import decode_rice
from formats.reference.index.rle import decode_rle
from formats.reference.index.structured import decode_structured
from formats.reference.limits import Work

INDEX_CODECS: dict[int, Callable[[bytes, int, int], list[int]]] = {
    1: decode_raw_index,
    2: decode_bitmap,
    3: decode_rice,
    4: decode_rle,
    5: decode_delta,
    6: decode_huffman,
    7: decode_elias_fano,
    8: decode_binned,
    9: decode_bloom,
    10: decode_structured,
    11: decode_context,
}
BY_CLASS = 12
"""The codec that needs the old elements (spec/patch.md); readers of patches alone support it."""
WORK: dict[int, Callable[[bytes, int, int], int]] = {
    9: count_bloom_work,
    11: count_context_work,
}
"""Codecs that count toward max_work: each function makes the preceding checks and counts the steps."""


def decode_index(codec: int, section: bytes, r: int, d: int, work: Work) -> Sequence[int]:
    """Decode the support of an entry.

    Args:
        codec: id of a known index codec.
        section: bytes of the index section; empty if r is 0 or d.
        r: number of indices.
        d: number of elements, present or not.
        work: the part of max_work that remains; this entry's steps are subtracted.

    Returns:
        r strictly ascending indices below d; a ``range`` if the support is empty or full.

    Raises:
        WireError: as the codec's page defines.
    """
    if r in (0, d):
        return range(r)
    if codec in WORK:
        steps = WORK[codec](section, r, d)
        if steps > work.left:
            raise LimitExceeded("max-work", f"{steps} steps; {work.left} remain")
        work.left -= steps
    return INDEX_CODECS[codec](section, r, d)
