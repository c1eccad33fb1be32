"""Value codec 5, sign-scale: decoding (spec/value/sign-scale.md), on integers only."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, FLOAT64, Format, convert, pack_elements


def scale_format(dtype: Format) -> Format:
    """Return the type of the scale."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def decode_sign_scale(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode a scale and signs.

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
    if len(section) != form.itemsize + -(-r // 8):
        raise Malformed("sign-scale-length", f"{len(section)} bytes for {r} values")
    scale = int.from_bytes(section[: form.itemsize], "little")
    if scale > convert(dtype.infinity - 1, dtype, form):  # also true for a set sign bit, infinity and NaN
        raise Invalid("sign-scale-scale", f"the scale has the bits {scale:#x}")
    signs = section[form.itemsize :]
    if r % 8 and signs[-1] >> r % 8:
        raise Malformed("sign-scale-padding", "a bit after the last sign is set")
    magnitude = convert(scale, form, dtype)
    negative = [signs[i // 8] >> i % 8 & 1 for i in range(r)]
    return pack_elements([magnitude | dtype.sign * minus for minus in negative], dtype.itemsize)
