"""Value codec 11, terngrad: minus, zero or plus a scale, five digits a byte (spec/value/terngrad.md).

Reading works on integers. Writing computes in Python floats, rounded to binary32 where the page says so.
"""

from __future__ import annotations

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, Format, convert, largest_finite, pack_elements

BLOCK = 320
PLACES = (81, 27, 9, 3, 1)


def decode_terngrad(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 11: a scale, and ternary digits.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    if len(section) != 4 + -(-r // 5):
        raise Malformed("terngrad-length", f"{len(section)} bytes of {r} values")
    scale = int.from_bytes(section[:4], "little")
    if scale > largest_finite(dtype):  # sign bit, infinity and NaN are greater
        raise Invalid("terngrad-scale", f"scale {scale:#010x}")
    for byte in section[4:]:
        if byte > 242:
            raise Invalid("terngrad-byte", f"byte {byte}")
    plus = convert(scale, FLOAT32, dtype)
    words = (plus | dtype.sign, 0, plus)
    values: list[int] = []
    for first in range(0, r, BLOCK):
        count = min(BLOCK, r - first)
        span = -(-count // 5)
        packed = section[4 + first // 5 : 4 + first // 5 + span]
        digits = [byte // place % 3 for place in PLACES for byte in packed]
        if any(digit != 1 for digit in digits[count:]):
            raise Malformed("terngrad-padding", "a digit after the last is not 1")
        values += [words[digit] for digit in digits[:count]]
    return pack_elements(values, dtype.itemsize)
