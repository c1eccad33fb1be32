"""Map codec 1, packed: decoding of the positions of sorted values (spec/map/packed.md)."""

from __future__ import annotations

from collections.abc import Sequence

from formats.reference.bits import has_bit_from, unpack_stream
from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import Format, pack_elements, unpack_elements

PACKED = 1


def position_width(r: int) -> int:
    """Return ⌈log₂ r⌉, the bits per position."""
    return max(r - 1, 0).bit_length()


def map_length(r: int) -> int:
    """Return the length of the section in bytes."""
    return -(-r * position_width(r) // 8)


def decode_packed(section: bytes, r: int) -> list[int]:
    """Decode the original position of each value, in stored order.

    Args:
        section: bytes of the map section, of the right length (row 24).
        r: number of values.

    Raises:
        WireError: Malformed or Invalid.
    """
    if has_bit_from(section, r * position_width(r)):
        raise Malformed("map-padding", "a bit after the last number is set")
    positions = unpack_stream(section, r, position_width(r))
    seen = [False] * r
    for i, position in enumerate(positions):
        if position >= r or seen[position]:
            raise Invalid(
                "map-permutation", f"number {i} is {position}, which is not below {r} or occurs twice"
            )
        seen[position] = True
    return positions


def restore(values: bytes, positions: Sequence[int], dtype: Format) -> bytes:
    """Move elements from stored order to their original positions."""
    out = [0] * len(positions)
    for bits, position in zip(unpack_elements(values, dtype.itemsize), positions, strict=True):
        out[position] = bits
    return pack_elements(out, dtype.itemsize)
