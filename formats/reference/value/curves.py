"""Functions shared by the value codecs polyfit and dexpfit: headers, sections without pieces, rounding.

All arithmetic on curves is binary64, the type of Python's floats: one rounding per operation.
"""

from __future__ import annotations

import struct

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT64, Format, convert, to_float, unpack_elements

LENGTH_MASK = (1 << 24) - 1


def read_headers(section: bytes, r: int, name: str) -> list[int]:
    """Read the heads of a section's pieces.

    Args:
        section: bytes of the value section.
        r: number of values.
        name: name of the codec.

    Raises:
        WireError: Malformed.
    """
    if len(section) < 4:
        raise Malformed(f"{name}-length", f"{len(section)} bytes")
    (n,) = struct.unpack_from("<I", section)
    if n > r or len(section) < 4 + 4 * n:
        raise Malformed(f"{name}-length", f"{len(section)} bytes for {n} pieces")
    return list(struct.unpack_from(f"<{n}I", section, 4))


def read_raw(section: bytes, r: int, dtype: Format, name: str) -> bytes:
    """Return the elements of a section without pieces.

    Args:
        section: bytes of the value section.
        r: number of values.
        dtype: the element type.
        name: name of the codec.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) != 4 + r * dtype.itemsize:
        raise Malformed(f"{name}-length", f"{len(section)} bytes for {r} values")
    for bits in unpack_elements(section[4:], dtype.itemsize):
        if bits & (dtype.sign - 1) >= dtype.infinity:
            raise Invalid(f"{name}-value", f"an element has the bits {bits:#x}")
    return section[4:]


def round_to_element(value: float, dtype: Format) -> int:
    """Return the bits of the element nearest to a curve's value, clamped to the type's finite numbers."""
    largest = to_float(dtype.infinity - 1, dtype)
    value = max(-largest, min(value, largest))
    return convert(int.from_bytes(struct.pack("<d", value), "little"), FLOAT64, dtype)
