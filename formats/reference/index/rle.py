"""Index codec 4, rle: decoding (spec/index/rle.md)."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.index.varint import decode_varint, is_shortest, split_varints


def decode_rle(section: bytes, r: int, d: int) -> list[int]:
    """Decode run lengths.

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
    if not numbers or rest or len(numbers) % 2:
        raise Malformed("rle-length", f"{len(numbers)} varints and {len(rest)} bytes after them")
    if not all(is_shortest(number) for number in numbers):
        raise Malformed("rle-varint", "a varint is not the shortest or has more than 4 bytes")
    indices: list[int] = []
    at = 0  # the first element after the last run
    for n in range(0, len(numbers), 2):
        at += decode_varint(numbers[n]) + (1 if n else 0)
        present = decode_varint(numbers[n + 1]) + 1
        if len(indices) + present > r:
            raise Invalid("rle-count", f"more than {r} elements are present")
        if at + present > d:
            raise Invalid("index-range", f"a run ends at {at + present}; d is {d}")
        indices += range(at, at + present)
        at += present
    if len(indices) < r:
        raise Invalid("rle-count", f"{len(indices)} of {r} elements are present")
    return indices
