"""Value codec 15, mean: decoding (spec/value/mean.md)."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import Format, convert, pack_elements
from formats.reference.value.sign_scale import scale_format


def decode_mean(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode one number for all values.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    form = scale_format(dtype)
    if len(section) != form.itemsize:
        raise Malformed("mean-length", f"{len(section)} bytes")
    number = int.from_bytes(section, "little")
    if number & (form.sign - 1) > convert(dtype.infinity - 1, dtype, form):
        raise Invalid("mean-number", f"the mean has the bits {number:#x}")
    return pack_elements([convert(number, form, dtype)] * r, dtype.itemsize)
