"""Sorting for codecs that need ascending values, and the map back (formats/spec/map/packed.md).

The map's i-th number is the original position of the i-th value in sorted order.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import Invalid, Malformed

PACKED = 1
"""Wire id of the map codec."""


def sort_ascending(values: Array) -> tuple[Array, Array]:
    """Sort finite values stably, with -0 before +0.

    Args:
        values: (r,) array of an element type.

    Returns:
        The (r,) sorted values, and their (r,) u32 positions.
    """
    from wirecodec.kernels.cpu.coding import sort_permutation

    bits = read_only(bits_of(values))
    pairs, none = np.empty(values.size, np.uint64), np.empty(0, np.uint64)
    sort_permutation.pairs_of(bits, none, pairs)
    pairs = sort_permutation.sort_pairs(pairs, min(8 * values.itemsize, 32))
    if values.itemsize == 8:
        above = np.empty_like(pairs)
        sort_permutation.pairs_of(bits, pairs, above)
        pairs = sort_permutation.sort_pairs(above, 32)
    positions, out = np.empty(values.size, np.uint32), np.empty(values.size, bits.dtype)
    sort_permutation.split_pairs(pairs, bits, positions, out)
    return out.view(values.dtype), positions


def restore_order(values: Array, positions: Array) -> Array:
    """Move sorted values to their original positions."""
    from wirecodec.kernels.cpu.coding import sort_permutation

    bits = bits_of(values)
    out = np.empty_like(bits)
    sort_permutation.scatter(bits, positions, out)
    return out.view(values.dtype)


def map_bytes(r: int) -> int:
    """Compute the bytes of a map of r values, ⌈log₂ r⌉ bits each."""
    return -(-r * _width(r) // 8)


def _width(r: int) -> int:
    return max(r - 1, 0).bit_length()


def pack_map(positions: Array) -> Bytes:
    """Pack (r,) u32 positions as a map section."""
    from wirecodec.kernels.cpu.coding import sort_permutation

    size = map_bytes(positions.size)
    section = np.zeros(size + 8, np.uint8)
    if size:
        sort_permutation.pack_bits(positions, _width(positions.size), section)
    return section[:size]


def unpack_map(section: Bytes, r: int) -> Array:
    """Unpack the positions of a map section of the right length.

    Returns:
        (r,) u32.

    Raises:
        Malformed: if a padding bit is set.
        Invalid: if the positions are not a permutation.
    """
    from wirecodec.kernels.cpu.coding import sort_permutation

    if (used := r * _width(r) & 7) and section[-1] >> used:
        raise Malformed("map-padding", "a bit after the last number is set")
    positions = np.zeros(r, np.uint32)
    if section.size:
        stream = np.zeros(section.size + 8, np.uint8)
        stream[: section.size] = section
        if not sort_permutation.unpack_permutation(
            stream, _width(r), positions, np.zeros(-(-r // 64), np.uint64)
        ):
            raise Invalid("map-permutation", f"the map is not a permutation of {r} positions")
    return positions
