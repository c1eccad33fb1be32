"""Packed codes, both directions (SPEC section 1.1): blocks of 512 in 16 lanes, the rest one bit stream."""

from __future__ import annotations

from collections.abc import Sequence

from formats.reference.bits import has_bit_from, pack_lanes, pack_stream, unpack_lanes, unpack_stream

LANES = 16
BLOCK = 512


def packed_size(count: int, width: int) -> int:
    """Return the length of packed codes in bytes.

    Args:
        count: number of codes.
        width: bits per code, 1 … 24.
    """
    return 4 * (LANES * width * (count // BLOCK) + -(-(count % BLOCK) * width // 32))


def unpack_codes(data: bytes, count: int, width: int) -> list[int]:
    """Read the packed codes of a section.

    Args:
        data: ``packed_size`` bytes.
        count: number of codes.
        width: bits per code, 1 … 24.
    """
    codes: list[int] = []
    size = 4 * LANES * width
    for n in range(count // BLOCK):
        codes += unpack_lanes(data[size * n : size * (n + 1)], LANES, width)
    return codes + unpack_stream(data[size * (count // BLOCK) :], count % BLOCK, width)


def has_trailing_bit(data: bytes, count: int, width: int) -> bool:
    """Return whether a bit after the last code is set.

    Args:
        data: ``packed_size`` bytes.
        count: number of codes.
        width: bits per code, 1 … 24.
    """
    return has_bit_from(data[4 * LANES * width * (count // BLOCK) :], count % BLOCK * width)


def pack_codes(codes: Sequence[int], width: int) -> bytes:
    """Pack codes for a section.

    Args:
        codes: integers below 2^width.
        width: bits per code, 1 … 24.
    """
    whole = len(codes) - len(codes) % BLOCK
    blocks = [pack_lanes(codes[i : i + BLOCK], LANES, width) for i in range(0, whole, BLOCK)]
    return b"".join(blocks) + pack_stream(codes[whole:], width, 4)
