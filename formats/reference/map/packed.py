"""Map codec 1, packed: where values that are stored in order came from (spec/map/packed.md)."""

from __future__ import annotations

from collections.abc import Sequence

from formats.reference.bits import any_bit_from, unpack_stream
from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import Format, element_bytes, elements

PACKED = 1


def width_of(r: int) -> int:
    """⌈log₂ r⌉."""
    return max(r - 1, 0).bit_length()


def map_bytes(r: int) -> int:
    """The length of the section."""
    return -(-r * width_of(r) // 8)


def decode_packed(section: bytes, r: int) -> list[int]:
    """The original position of each value, in stored order.

    Args:
        section: the bytes of the map section, of the right length (row 24).
        r: the number of values.

    Raises Malformed, Invalid.
    """
    if any_bit_from(section, r * width_of(r)):
        raise Malformed("map-padding", "a bit after the last number is set")
    positions = unpack_stream(section, r, width_of(r))
    seen = [False] * r
    for i, position in enumerate(positions):
        if position >= r or seen[position]:
            raise Invalid("map-permutation", f"number {i} is {position}")
        seen[position] = True
    return positions


def restore(values: bytes, positions: Sequence[int], dtype: Format) -> bytes:
    """Elements in stored order, put where they came from."""
    out = [0] * len(positions)
    for bits, position in zip(elements(values, dtype.itemsize), positions, strict=True):
        out[position] = bits
    return element_bytes(out, dtype.itemsize)
