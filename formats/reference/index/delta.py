"""Index codec 5, delta: decoding (spec/index/delta.md)."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.index.varint import decode_varint, is_shortest, split_varints


def decode_delta(section: bytes, r: int, d: int) -> list[int]:
    """Decode gaps as varints.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    numbers, rest = split_varints(section)
    if len(numbers) != r or rest:
        raise Malformed("delta-length", f"{len(numbers)} of {r} varints, and {len(rest)} bytes after them")
    if not all(is_shortest(number) for number in numbers):
        raise Malformed("delta-varint", "a varint is not the shortest or has more than 4 bytes")
    indices = []
    index = -1
    for number in numbers:
        index += decode_varint(number) + 1
        indices.append(index)
    if index >= d:
        raise Invalid("index-range", f"index {index} is not below {d}")
    return indices
