"""TODO index.bitmap"""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed


def decode_bitmap(section: bytes, r: int, d: int) -> list[int]:
    """Codec 2: one bit an element.

    Args:
        section: the bytes of the index section.
        r: the number of indices, 0 < r < d.
        d: the number of elements, present or not.

    Returns r strictly ascending indices below d.

    Raises Malformed, Invalid.
    """
    if len(section) != (d + 7) // 8:
        raise Malformed("bitmap-length", f"{len(section)} bytes of {d} elements")
    if d % 8 and section[-1] >> d % 8:
        raise Malformed("bitmap-tail", "a bit beyond the last element is set")
    if sum(byte.bit_count() for byte in section) != r:
        raise Invalid("bitmap-count", f"not {r} bits are set")
    return [8 * n + bit for n, byte in enumerate(section) if byte for bit in range(8) if byte >> bit & 1]
