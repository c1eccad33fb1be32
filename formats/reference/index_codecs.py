"""The index codecs: raw-index and bitmap (their pages in spec/index/), and the table of all.

Each decoder makes its checks in its page's order. ``decode_index`` adds the supports that need no bytes (SPEC
section 2.2).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence

from .binned import decode_binned
from .bloom import bloom_work, decode_bloom
from .context import context_work, decode_context
from .delta import decode_delta
from .elias_fano import decode_elias_fano
from .errors import Invalid, LimitExceeded, Malformed
from .huffman import decode_huffman
from .limits import Work
from .rice import decode_rice
from .rle import decode_rle
from .structured import decode_structured

SHORT_INDICES = 65_536


def decode_raw_index(section: bytes, r: int, d: int) -> list[int]:
    """Codec 1: u16 or u32 integers.

    Args:
        section: the bytes of the index section.
        r: the number of indices, 0 < r < d.
        d: the number of elements, present or not.

    Returns r strictly ascending indices below d.

    Raises Malformed, Invalid.
    """
    width, letter = (2, "H") if d <= SHORT_INDICES else (4, "I")
    if len(section) != width * r:
        raise Malformed("raw-index-length", f"{len(section)} bytes of {r} indices")
    indices = list(struct.unpack(f"<{r}{letter}", section))
    for last, index in itertools.pairwise(indices):
        if index <= last:
            raise Invalid("index-order", f"index {index} after {last}")
    if indices[-1] >= d:
        raise Invalid("index-range", f"index {indices[-1]} of {d}")
    return indices


def decode_bitmap(section: bytes, r: int, d: int) -> list[int]:
    """Codec 2: one bit an element.

    Args:
        section: the bytes of the index section.
        r: the number of indices, 0 < r < d.
        d: the number of elements, present or not.

    Returns r strictly ascending indices below d.

    Raises Malformed, Invalid.
    """
    if len(section) != (d + 7) // 8:
        raise Malformed("bitmap-length", f"{len(section)} bytes of {d} elements")
    if d % 8 and section[-1] >> d % 8:
        raise Malformed("bitmap-tail", "a bit beyond the last element is set")
    if sum(byte.bit_count() for byte in section) != r:
        raise Invalid("bitmap-count", f"not {r} bits are set")
    return [8 * n + bit for n, byte in enumerate(section) if byte for bit in range(8) if byte >> bit & 1]


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
WORK: dict[int, Callable[[bytes, int, int], int]] = {
    9: bloom_work,
    11: context_work,
}
"""The codecs whose steps count toward max_work: each makes the checks that come before, and says how many."""


def decode_index(codec: int, section: bytes, r: int, d: int, work: Work) -> Sequence[int]:
    """The support of an entry.

    Args:
        codec: the id of a known index codec.
        section: the bytes of the index section; none where r is 0 or d.
        r: the number of indices.
        d: the number of elements, present or not.
        work: what is left of max_work; this entry's steps are taken from it.

    Returns r strictly ascending indices below d; a ``range`` where the support is empty or full.

    Raises WireError as the codec's page says.
    """
    if r in (0, d):
        return range(r)
    if codec in WORK:
        steps = WORK[codec](section, r, d)
        if steps > work.left:
            raise LimitExceeded("max-work", f"{steps} steps, {work.left} left")
        work.left -= steps
    return INDEX_CODECS[codec](section, r, d)
