"""Value codec 8, offset-float: decoding (spec/value/offset-float.md), on integers only."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import (
    FLOAT32,
    Format,
    convert,
    largest_finite,
    pack_elements,
)
from formats.reference.packed_codes import has_trailing_bit, packed_size, unpack_codes

HEADER_BYTES = 12
SIGN = 1 << 31


def decode_offset_float(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode floats of few bits.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < HEADER_BYTES:
        raise Malformed("offset-float-length", f"{len(section)} bytes")
    bits, m, reserved, positive, negative, base = struct.unpack_from("<BBHHHI", section)
    if not 2 <= bits <= 16 or m > 23 or reserved:
        raise Malformed("offset-float-parameter", f"bits is {bits}, mantissa is {m}, reserved is {reserved}")
    if len(section) != HEADER_BYTES + packed_size(r, bits):
        raise Malformed("offset-float-length", f"{len(section)} bytes for {r} values")
    form = Form(m, base, positive, negative)
    greatest = (base + max(positive, negative, 1) - 1) << form.cut
    if base == 0 or positive + negative >= 1 << bits or greatest > largest_finite(dtype):
        raise Invalid(
            "offset-float-range", f"base is {base}, with {positive} positive and {negative} negative codes"
        )
    if has_trailing_bit(section[HEADER_BYTES:], r, bits):
        raise Malformed("offset-float-padding", "a bit after the last code is set")
    codes = unpack_codes(section[HEADER_BYTES:], r, bits)
    for i, code in enumerate(codes):
        if code > positive + negative:
            raise Invalid("offset-float-code", f"value {i} has code {code}")
    return pack_elements([convert(form.decode(c), FLOAT32, dtype) for c in codes], dtype.itemsize)


@dataclass(frozen=True)
class Form:
    """Parameters of a section: bits of the mantissa, the base, and the numbers of codes."""

    mantissa: int
    base: int
    positive: int
    negative: int

    @property
    def cut(self) -> int:
        """Number of low bits of a binary32 number that a code omits."""
        return 23 - self.mantissa

    @property
    def eps(self) -> int:
        """The bits of the magnitude of code 1."""
        return self.base << self.cut

    def decode(self, code: int) -> int:
        """Return the binary32 bits of a code."""
        if code == 0:
            return 0
        if code <= self.positive:
            return (self.base + code - 1) << self.cut
        return SIGN | (self.base + code - self.positive - 1) << self.cut
