"""Upper bounds on the lengths of index sections, which several codecs share.

A codec's ``max_bytes(r, d)`` bounds its section for every support of 1 to r of d elements. It never falls
as r grows.
"""

from __future__ import annotations

from wirecodec.kernels.layout import RICE_SPAN

_MAX_PARAMETER = 24
_VARINT_SHIFTS = (7, 14, 21)
"""A LEB128 varint takes one byte more from 2^7, 2^14 and 2^21 on."""


def max_gap_bits(r: int, d: int) -> int:
    """Return the maximum bits that the gaps of r indices below d take as Rice codes of the best parameter.

    With parameter b a gap g takes b + 1 + ⌊g / 2^b⌋ bits, and the gaps add up to at most d - r. The least sum
    over b is concave in the mean gap. So a parameter for each block takes no more bits than one for all.
    """
    absent = max(d - r, 0)
    return min(r * (b + 1) + (absent >> b) for b in range(_MAX_PARAMETER + 1))


def max_span_words(r: int, d: int) -> int:
    """Return the maximum u32 words of all spans of 4096 gaps; each span's unary part begins at a word."""
    spans = -(-r // RICE_SPAN)
    return (max_gap_bits(r, d) + 31 * spans + 31) // 32


def max_varint_bytes(count: int, total: int) -> int:
    """Return the maximum number of bytes of ``count`` varints that add up to at most ``total``."""
    return count + sum(min(count, total >> shift) for shift in _VARINT_SHIFTS)


def max_runs(r: int, d: int) -> int:
    """Return the most runs that r of d elements form."""
    return min(r, (d + 1) // 2)
