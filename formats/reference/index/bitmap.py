"""Index codec 2, bitmap: decoding (spec/index/bitmap.md)."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed


def decode_bitmap(section: bytes, r: int, d: int) -> list[int]:
    """Decode one bit per element.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) != (d + 7) // 8:
        raise Malformed("bitmap-length", f"{len(section)} bytes for {d} elements")
    if d % 8 and section[-1] >> d % 8:
        raise Malformed("bitmap-tail", "a bit after the last element is set")
    if sum(byte.bit_count() for byte in section) != r:
        raise Invalid("bitmap-count", f"the number of set bits is not {r}")
    return [8 * n + bit for n, byte in enumerate(section) if byte for bit in range(8) if byte >> bit & 1]
