"""TODO value.raw"""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import BFLOAT16, FLOAT16, Format, convert, pack_elements, unpack_elements


def decode_raw(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 1: the elements themselves.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed.
    """
    if len(section) != r * dtype.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes of {r} values")
    return section


def decode_raw_float16(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 2: binary16, widened.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Invalid, Malformed.
    """
    return _widen(section, r, FLOAT16, dtype)


def decode_raw_bfloat16(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 3: bfloat16, widened.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Invalid, Malformed.
    """
    return _widen(section, r, BFLOAT16, dtype)


def _widen(section: bytes, r: int, narrow: Format, dtype: Format) -> bytes:
    if dtype in (FLOAT16, BFLOAT16):
        raise Invalid("raw-dtype", f"{narrow.name} values of {dtype.name} elements")
    if len(section) != r * narrow.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes of {r} values")
    wide = [convert(bits, narrow, dtype) for bits in unpack_elements(section, narrow.itemsize)]
    return pack_elements(wide, dtype.itemsize)
