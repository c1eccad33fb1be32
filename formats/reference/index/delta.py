"""Index codec 5, delta: decoding and writing (spec/index/delta.md)."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.index.varint import decode_varint, is_shortest, split_varints


def decode_delta(section: bytes, r: int, d: int) -> list[int]:
    """Codec 5: gaps as varints.

    Args:
        section: the bytes of the index section.
        r: the number of indices, 0 < r < d.
        d: the number of elements, present or not.

    Returns r strictly ascending indices below d.

    Raises Malformed, Invalid.
    """
    numbers, rest = split_varints(section)
    if len(numbers) != r or rest:
        raise Malformed("delta-length", f"{len(numbers)} numbers of {r}, and {len(rest)} bytes more")
    if not all(is_shortest(number) for number in numbers):
        raise Malformed("delta-varint", "a number is over-long or takes more than 4 bytes")
    indices = []
    index = -1
    for number in numbers:
        index += decode_varint(number) + 1
        indices.append(index)
    if index >= d:
        raise Invalid("index-range", f"index {index} of {d}")
    return indices
