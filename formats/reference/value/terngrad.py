"""Value codec 11, terngrad: decoding (spec/value/terngrad.md), on integers only."""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, Format, convert, largest_finite, pack_elements

BLOCK = 320
PLACES = (81, 27, 9, 3, 1)


def decode_terngrad(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode a scale and ternary digits.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) != 4 + -(-r // 5):
        raise Malformed("terngrad-length", f"{len(section)} bytes for {r} values")
    scale = int.from_bytes(section[:4], "little")
    if scale > largest_finite(dtype):  # also true for a set sign bit, infinity and NaN
        raise Invalid("terngrad-scale", f"the scale has the bits {scale:#010x}")
    for byte in section[4:]:
        if byte > 242:
            raise Invalid("terngrad-byte", f"a byte is {byte}; it must be 0 to 242")
    plus = convert(scale, FLOAT32, dtype)
    words = (plus | dtype.sign, 0, plus)
    values: list[int] = []
    for first in range(0, r, BLOCK):
        count = min(BLOCK, r - first)
        span = -(-count // 5)
        packed = section[4 + first // 5 : 4 + first // 5 + span]
        digits = [byte // place % 3 for place in PLACES for byte in packed]
        if any(digit != 1 for digit in digits[count:]):
            raise Malformed("terngrad-padding", "a digit without a value is not 1")
        values += [words[digit] for digit in digits[:count]]
    return pack_elements(values, dtype.itemsize)
