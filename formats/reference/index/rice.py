"""Index codec 3, rice: decoding (spec/index/rice.md).

Gaps between indices are split into low bits in lanes and unary quotients, in spans of 4096 and blocks of 256.
The checks have the page's order: first all lengths, then span after span, then the stored bases.
"""

from __future__ import annotations

import struct

from formats.reference.bits import has_bit_from, unpack_lanes, unpack_stream
from formats.reference.errors import Invalid, Malformed

SPAN = 4096
BLOCK = 256
LANES = 8
MAX_PARAMETER = 24


def decode_rice(section: bytes, r: int, d: int) -> list[int]:
    """Decode gaps in Rice code.

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
    n_blocks = -(-r // BLOCK)
    tables = 6 * (n_spans - 1)  # length of bases and words; the parameters follow
    start = -(-(tables + -(-5 * n_blocks // 8)) // 4) * 4
    if len(section) % 4 or len(section) < start:
        raise Malformed("rice-length", f"{len(section)} bytes for {r} indices")
    bases = [0, *struct.unpack_from(f"<{n_spans - 1}I", section)]
    lengths = list(struct.unpack_from(f"<{n_spans - 1}H", section, 4 * (n_spans - 1)))
    parameters_field = section[tables:start]
    if has_bit_from(parameters_field, 5 * n_blocks):
        raise Malformed("rice-padding", "a bit after the parameters is set")
    parameters = unpack_stream(parameters_field, n_blocks, 5)
    if max(parameters) > MAX_PARAMETER:
        raise Malformed("rice-parameter", f"b is {max(parameters)}; it must be 0 to {MAX_PARAMETER}")
    words = struct.unpack_from(f"<{(len(section) - start) // 4}I", section, start)
    if sum(lengths) > len(words):
        raise Malformed("rice-length", "the spans are longer than the section")
    lengths.append(len(words) - sum(lengths))
    spans = []  # (indices, parameters of the blocks) of each span
    for c in range(n_spans):
        count = min(SPAN, r - SPAN * c)
        bs = parameters[SPAN // BLOCK * c :][: -(-count // BLOCK)]
        if lengths[c] < low_words(count, bs) + 1:
            raise Malformed("rice-length", f"span {c} is too short")
        spans.append((count, bs))
    indices: list[int] = []
    follows = [0]  # the required bases
    at = start
    for (count, bs), base, length in zip(spans, bases, lengths, strict=True):
        index = base
        for gap in _read_gaps(section[at : at + 4 * length], count, bs):
            index += gap
            indices.append(index)
            index += 1
        if indices[-1] >= d:
            raise Invalid("index-range", f"index {indices[-1]} is not below {d}")
        follows.append(index)
        at += 4 * length
    if bases != follows[:-1]:
        raise Invalid("rice-base", "a base is not the last index of the span before it, plus 1")
    return indices


def low_words(count: int, parameters: list[int]) -> int:
    """Return the words of low bits in a span of ``count`` gaps whose blocks have these parameters."""
    total = 0
    for n, b in enumerate(parameters):
        m = min(BLOCK, count - BLOCK * n)
        total += LANES * b if m == BLOCK else -(-m * b // 32)
    return total


def _read_gaps(span: bytes, count: int, parameters: list[int]) -> list[int]:
    """Read the gaps of one span."""
    at = 0
    lows: list[int] = []
    for n, b in enumerate(parameters):
        m = min(BLOCK, count - BLOCK * n)
        size = 4 * low_words(m, [b])
        data = span[at : at + size]
        if m == BLOCK:
            lows += unpack_lanes(data, LANES, b)
        else:
            if has_bit_from(data, m * b):
                raise Malformed("rice-padding", "a bit after the last low bits is set")
            lows += unpack_stream(data, m, b)
        at += size
    quotients = _read_unary(span[at:], count)
    gaps = []
    for j, (low, q) in enumerate(zip(lows, quotients, strict=True)):
        gaps.append(q << parameters[j // BLOCK] | low)
    return gaps


def _read_unary(data: bytes, count: int) -> list[int]:
    """Read ``count`` unary numbers, each q zero bits and a one bit; the last word holds the last one."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if sum(word.bit_count() for word in words) != count or words[-1] == 0:
        raise Malformed(
            "rice-unary", "the number of one bits is not that of the gaps, or there are too many words"
        )
    quotients = []
    follows = 0  # position after the last one bit
    for n, word in enumerate(words):
        while word:
            lowest = word & -word
            position = 32 * n + lowest.bit_length() - 1
            quotients.append(position - follows)
            follows = position + 1
            word ^= lowest  # noqa: PLW2901 - the loop clears one bit per iteration
    return quotients
