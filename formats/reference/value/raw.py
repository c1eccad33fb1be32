"""Value codecs 1 to 3, raw, raw-float16, raw-bfloat16: decoding (spec/value/raw.md), on integers only."""

from __future__ import annotations

from formats.reference.element_types import ElementType
from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import BFLOAT16, FLOAT16, Format, convert, pack_elements, unpack_elements


def decode_raw(section: bytes, r: int, dtype: ElementType) -> bytes:
    """Decode elements that are stored unchanged.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed.
    """
    if len(section) != r * dtype.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes for {r} values")
    return section


def decode_raw_float16(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode binary16 values, widened.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    return _widen(section, r, FLOAT16, dtype)


def decode_raw_bfloat16(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode bfloat16 values, widened.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    return _widen(section, r, BFLOAT16, dtype)


def _widen(section: bytes, r: int, narrow: Format, dtype: Format) -> bytes:
    """Widen 16-bit values to the element type, after the checks of the page."""
    if dtype in (FLOAT16, BFLOAT16):
        raise Invalid("raw-dtype", f"{narrow.name} values for {dtype.name} elements")
    if len(section) != r * narrow.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes for {r} values")
    wide = [convert(bits, narrow, dtype) for bits in unpack_elements(section, narrow.itemsize)]
    return pack_elements(wide, dtype.itemsize)
