"""Index codec 5, delta: decoding and writing (spec/index/delta.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .errors import Invalid, Malformed
from .varint import is_least, split_varints, value_of, write_varints


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
    if not all(is_least(number) for number in numbers):
        raise Malformed("delta-varint", "a number is over-long or takes more than 4 bytes")
    indices = []
    index = -1
    for number in numbers:
        index += value_of(number) + 1
        indices.append(index)
    if index >= d:
        raise Invalid("index-range", f"index {index} of {d}")
    return indices


def write_delta(indices: Sequence[int]) -> bytes:
    """The gaps in as few bytes as hold them."""
    return write_varints([i - last - 1 for last, i in zip([-1, *indices], indices, strict=False)])


@dataclass(frozen=True)
class Delta:
    """Index codec 5, for the writer."""

    scheme: ClassVar[str] = "delta"
    id: ClassVar[int] = 5

    def section(self, indices: Sequence[int], d: int) -> bytes:
        """Gaps as varints."""
        return write_delta(indices)
