"""Value codec 8, offset-float: floats whose codes begin at eps (spec/value/offset-float.md).

Reading works on integers. Writing needs binary64 for the choice of the mantissa, and binary32 below eps where
rounding is stochastic.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .draws import draw16, draw32
from .errors import Invalid, Malformed
from .floats import FLOAT32, Format, bits32, convert, element_bytes, float_of, round32, singles
from .packing import pack_codes, packed_size, stray_bits, unpack_codes
from .qsgd import largest_finite

HEAD = 12
SIGN = 1 << 31
SAMPLE = 512
LEAST_EPS = 0x0D800000
"""The bits of 2^-100."""


def decode_offset_float(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 8: numbers of few bits.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    if len(section) < HEAD:
        raise Malformed("offset-float-length", f"{len(section)} bytes")
    bits, m, reserved, positive, negative, base = struct.unpack_from("<BBHHHI", section)
    if not 2 <= bits <= 16 or m > 23 or reserved:
        raise Malformed("offset-float-parameter", f"bits {bits}, mantissa {m}, reserved {reserved}")
    if len(section) != HEAD + packed_size(r, bits):
        raise Malformed("offset-float-length", f"{len(section)} bytes of {r} values")
    form = Form(m, base, positive, negative)
    greatest = (base + max(positive, negative, 1) - 1) << form.cut
    if base == 0 or positive + negative >= 1 << bits or greatest > largest_finite(dtype):
        raise Invalid("offset-float-range", f"base {base}, {positive} and {negative} codes")
    if stray_bits(section[HEAD:], r, bits):
        raise Malformed("offset-float-padding", "a bit after the last code is set")
    codes = unpack_codes(section[HEAD:], r, bits)
    for i, code in enumerate(codes):
        if code > positive + negative:
            raise Invalid("offset-float-code", f"code {code} of value {i}")
    return element_bytes([convert(form.value(c), FLOAT32, dtype) for c in codes], dtype.itemsize)


@dataclass(frozen=True)
class Form:
    """The parameters of a section: bits of the mantissa, the base, and numbers of codes."""

    mantissa: int
    base: int
    positive: int
    negative: int

    @property
    def cut(self) -> int:
        """Bits of a binary32 number that are dropped."""
        return 23 - self.mantissa

    @property
    def eps(self) -> int:
        """The bits of the value of code 1."""
        return self.base << self.cut

    def value(self, code: int) -> int:
        """The binary32 bits that a code means."""
        if code == 0:
            return 0
        if code <= self.positive:
            return (self.base + code - 1) << self.cut
        return SIGN | (self.base + code - self.positive - 1) << self.cut

    def signed(self, bits: int, c: int) -> int:
        """The code of the c-th magnitude with the sign of a value's bits."""
        if bits < SIGN:
            return min(c, self.positive)
        c = min(c, self.negative)
        return self.positive + c if c else 0

    def nearest(self, bits: int) -> int:
        """The code of a value, rounded to nearest."""
        a = bits & (SIGN - 1)
        if 2 * float_of(a, FLOAT32) < float_of(self.eps, FLOAT32):
            return 0
        return self.signed(bits, max(1, ((a + (1 << self.cut) // 2) >> self.cut) - self.base + 1))

    def stochastic(self, bits: int, draw: int) -> int:
        """The code of a value, rounded at random."""
        a = bits & (SIGN - 1)
        if a >= self.eps:
            c = ((a + (draw << self.cut >> 16)) >> self.cut) - self.base + 1
        else:
            rate = round32(65536 / float_of(self.eps, FLOAT32))
            c = (int(round32(float_of(a, FLOAT32) * rate)) + draw) >> 16
        return self.signed(bits, c)


@dataclass(frozen=True)
class OffsetFloat:
    """Value codec 8, as the writer takes it; None is chosen."""

    id: ClassVar[int] = 8
    bits: int = 8
    mantissa: int | None = None
    min: float | None = None
    max: float | None = None
    eps: float | None = None
    rounding: str = "nearest"

    @property
    def scheme(self) -> str:
        """As schemes spell it."""
        names = ("bits", "mantissa", "min", "max", "eps", "rounding")
        given = {name: getattr(self, name) for name in names}
        return f"offset-float({', '.join(f'{k}={v}' for k, v in given.items() if v is not None)})"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Parameters and codes."""
        numbers = singles(values, dtype)
        form = self.form(numbers, dtype)
        if self.rounding == "nearest":
            codes = [form.nearest(x) for x in numbers]
        else:
            codes = [form.stochastic(x, draw16(stream, p)) for p, x in enumerate(numbers)]
        head = struct.pack("<BBHHHI", self.bits, form.mantissa, 0, form.positive, form.negative, form.base)
        return head + pack_codes(codes, self.bits)

    def form(self, numbers: Sequence[int], dtype: Format) -> Form:
        """The parameters for values, given as binary32 bits."""
        if self.mantissa is not None:
            return self.form_of(self.mantissa, numbers, dtype)
        r = len(numbers)
        sample = list(numbers)
        if r > SAMPLE:
            edges = [q * r // SAMPLE for q in range(SAMPLE + 1)]
            sample = [
                numbers[a + (draw32(0, q) * (edges[q + 1] - a) >> 32)] for q, a in enumerate(edges[:-1])
            ]
        forms = [self.form_of(m, numbers, dtype) for m in range(24)]
        return min(forms, key=lambda form: _error(form, sample, self.rounding))

    def form_of(self, m: int, numbers: Sequence[int], dtype: Format) -> Form:
        """The parameters with m bits of mantissa."""
        cut = 23 - m
        stochastic = self.rounding == "stochastic"
        over = (1 << cut) - 1 if stochastic else (1 << cut) // 2
        cap = largest_finite(dtype) >> cut
        up = max([x for x in numbers if x < SIGN], default=0)
        down = max([x - SIGN for x in numbers if x > SIGN], default=0)
        top, bottom = up + over, down + over
        if self.max is not None:
            up = top = bits32(round32(abs(self.max)))
        if self.min is not None:
            down = bottom = bits32(round32(abs(self.min)))
        top, bottom = min(top >> cut, cap), min(bottom >> cut, cap)
        least = max(1, LEAST_EPS >> cut if stochastic else 0)
        if self.eps is None:
            room = 1 << self.bits
            both = up > 0 and down > 0
            base = max(least, -(-(top + bottom + 3 - room) // 2), max(top, bottom) + 2 + both - room)
        else:
            base = min(max(least, bits32(round32(self.eps)) >> cut), cap)
        positive = max(1, top - base + 1) if up else 0
        negative = max(1, bottom - base + 1) if down else 0
        codes = (1 << self.bits) - 1
        if positive + negative > codes:
            room = max(codes - min(positive, negative), codes // 2)
            positive, negative = min(positive, room), min(negative, room)
        return Form(m, base, positive, negative)


def _error(form: Form, sample: Sequence[int], rounding: str) -> float:
    """The expected sum of squares, in the page's order."""
    sums = [0.0] * 16
    for i, x in enumerate(sample):
        if rounding == "nearest":
            low = high = form.nearest(x)
        else:
            low, high = form.stochastic(x, 0), form.stochastic(x, 0xFFFF)
        below = float_of(x, FLOAT32) - float_of(form.value(low), FLOAT32)
        above = float_of(form.value(high), FLOAT32) - float_of(x, FLOAT32)
        sums[i % 16] += abs(below * above)
    for w in (8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]
