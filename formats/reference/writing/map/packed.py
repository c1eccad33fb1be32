"""Map codec 1, packed: writing (spec/map/packed.md)."""

from __future__ import annotations

from collections.abc import Sequence

from formats.reference.bits import pack_stream
from formats.reference.floats import Format, pack_elements, unpack_elements
from formats.reference.map.packed import position_width


def write_packed(positions: Sequence[int]) -> bytes:
    """Write the section of a permutation."""
    return pack_stream(positions, position_width(len(positions)), 1)


def sort_positions(values: bytes, dtype: Format) -> list[int]:
    """Return the positions of elements in ascending order: -0 before +0, equal ones by position."""
    bits = unpack_elements(values, dtype.itemsize)
    return sorted(range(len(bits)), key=lambda i: _sort_key(bits[i], dtype))


def _sort_key(bits: int, dtype: Format) -> int:
    return -bits if bits & dtype.sign else bits - dtype.sign + 1


def gather(values: bytes, positions: Sequence[int], dtype: Format) -> bytes:
    """Return the elements at these positions, in their order."""
    bits = unpack_elements(values, dtype.itemsize)
    return pack_elements([bits[i] for i in positions], dtype.itemsize)
