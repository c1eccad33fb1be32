"""Index codec 7, elias-fano: decoding (spec/index/elias-fano.md).

Low bits are stored as in rice. The positions of the spans of 4096 indices follow from the bases and d.
"""

from __future__ import annotations

import itertools
import struct

from formats.reference.bits import has_bit_from, unpack_lanes, unpack_stream
from formats.reference.errors import Invalid, Malformed
from formats.reference.index.rice import BLOCK, LANES, SPAN


def decode_elias_fano(section: bytes, r: int, d: int) -> list[int]:
    """Decode high and low bits.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    n_spans = -(-r // SPAN)
    at = 4 * (n_spans - 1)
    if len(section) % 4 or len(section) < at:
        raise Malformed("elias-fano-length", f"{len(section)} bytes for {r} indices")
    bases = [0, *struct.unpack_from(f"<{n_spans - 1}I", section), d]
    counts = [min(SPAN, r - SPAN * c) for c in range(n_spans)]
    absents = [end - base - n for (base, end), n in zip(itertools.pairwise(bases), counts, strict=True)]
    if min(absents) < 0:
        raise Invalid("elias-fano-base", "the extent of a span is less than its number of indices")
    parameters = [choose_parameter(n, z) for n, z in zip(counts, absents, strict=True)]
    lows = [low_bytes(n, b) for n, b in zip(counts, parameters, strict=True)]
    highs = [high_bytes(n, z, b) for n, z, b in zip(counts, absents, parameters, strict=True)]
    left = len(section) - at - sum(lows[:-1]) - sum(highs[:-1]) - lows[-1]
    if not 4 <= left <= highs[-1]:
        raise Malformed("elias-fano-length", f"{left} bytes for the last span's high bits")
    highs[-1] = left
    indices: list[int] = []
    for c, (n, b, low, high) in enumerate(zip(counts, parameters, lows, highs, strict=True)):
        span = _read_span(section[at : at + low], section[at + low : at + low + high], n, b, c == n_spans - 1)
        span_indices = [bases[c] + i + v for i, v in enumerate(span)]
        if any(later <= index for index, later in itertools.pairwise(span_indices)):
            raise Invalid("index-order", f"the indices of span {c} do not ascend")
        if span_indices[-1] >= d:
            raise Invalid("index-range", f"index {span_indices[-1]} is not below {d}")
        if c < n_spans - 1 and span_indices[-1] + 1 != bases[c + 1]:
            raise Invalid("elias-fano-base", f"span {c} ends with index {span_indices[-1]}")
        indices += span_indices
        at += low + high
    return indices


def choose_parameter(n: int, absent: int) -> int:
    """Return the parameter b of a span of n indices and ``absent`` absent elements."""
    return max(b for b in range(25) if b == 0 or n << b <= absent)


def low_bytes(n: int, b: int) -> int:
    """Return the length of the low bits of n indices, in bytes."""
    full, rest = divmod(n, BLOCK)
    return 4 * (full * LANES * b + -(-rest * b // 32))


def high_bytes(n: int, absent: int, b: int) -> int:
    """Return the length of the high bits of a span, in bytes, if its last index is the greatest possible."""
    return 4 * -(-(n + (absent >> b)) // 32)


def _read_span(low: bytes, high: bytes, n: int, b: int, is_last: bool) -> list[int]:
    """Read the numbers v of a span from its low and its high bits."""
    numbers: list[int] = []
    size = 4 * LANES * b
    for at in range(0, n // BLOCK * size, size or 1):
        numbers += unpack_lanes(low[at : at + size], LANES, b)
    if b == 0:
        numbers = [0] * (n // BLOCK * BLOCK)
    rest = n % BLOCK
    tail = low[n // BLOCK * size :]
    if has_bit_from(tail, rest * b):
        raise Malformed("elias-fano-padding", "a bit after the last low bits is set")
    numbers += unpack_stream(tail, rest, b)
    bits = int.from_bytes(high, "little")
    if bits.bit_count() != n or (is_last and not any(high[-4:])):
        raise Malformed(
            "elias-fano-high",
            "the number of one bits is not that of the indices, or there are too many words",
        )
    ones = [8 * byte + bit for byte, eight in enumerate(high) for bit in range(8) if eight >> bit & 1]
    return [(one - i) << b | number for i, (one, number) in enumerate(zip(ones, numbers, strict=True))]
