"""Value codec 8, offset-float: writing (spec/value/offset-float.md, Writing).

The choice of the mantissa uses binary64; stochastic rounding below eps uses binary32.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import (
    FLOAT32,
    Format,
    largest_finite,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_as_float32,
)
from formats.reference.packed_codes import pack_codes
from formats.reference.prng import draw16, draw32
from formats.reference.value.offset_float import SIGN, Form

SAMPLE = 512
MIN_EPS = 0x0D800000
"""The bits of 2^-100."""


@dataclass(frozen=True)
class OffsetFloat:
    """Value codec 8; an argument that is None is chosen by the writer."""

    id: ClassVar[int] = 8
    bits: int = 8
    mantissa: int | None = None
    min: float | None = None
    max: float | None = None
    eps: float | None = None
    rounding: str = "nearest"

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        names = ("bits", "mantissa", "min", "max", "eps", "rounding")
        given = {name: getattr(self, name) for name in names}
        return f"offset-float({', '.join(f'{k}={v}' for k, v in given.items() if v is not None)})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write parameters and codes."""
        numbers = unpack_as_float32(values, dtype)
        form = self.choose_form(numbers, dtype)
        if self.rounding == "nearest":
            codes = [round_to_nearest(form, x) for x in numbers]
        else:
            codes = [round_stochastically(form, x, draw16(stream, p)) for p, x in enumerate(numbers)]
        head = struct.pack("<BBHHHI", self.bits, form.mantissa, 0, form.positive, form.negative, form.base)
        return head + pack_codes(codes, self.bits)

    def choose_form(self, numbers: Sequence[int], dtype: Format) -> Form:
        """Choose the parameters for values, given as binary32 bits."""
        if self.mantissa is not None:
            return self.form_for_mantissa(self.mantissa, numbers, dtype)
        r = len(numbers)
        sample = list(numbers)
        if r > SAMPLE:
            edges = [q * r // SAMPLE for q in range(SAMPLE + 1)]
            sample = [
                numbers[a + (draw32(0, q) * (edges[q + 1] - a) >> 32)] for q, a in enumerate(edges[:-1])
            ]
        forms = [self.form_for_mantissa(m, numbers, dtype) for m in range(24)]
        return min(forms, key=lambda form: _expected_error(form, sample, self.rounding))

    def form_for_mantissa(self, m: int, numbers: Sequence[int], dtype: Format) -> Form:
        """Return the parameters with m bits of mantissa."""
        cut = 23 - m
        stochastic = self.rounding == "stochastic"
        over = (1 << cut) - 1 if stochastic else (1 << cut) // 2
        cap = largest_finite(dtype) >> cut
        up = max([x for x in numbers if x < SIGN], default=0)
        down = max([x - SIGN for x in numbers if x > SIGN], default=0)
        top, bottom = up + over, down + over
        if self.max is not None:
            up = top = to_float32_bits(round_to_float32(abs(self.max)))
        if self.min is not None:
            down = bottom = to_float32_bits(round_to_float32(abs(self.min)))
        top, bottom = min(top >> cut, cap), min(bottom >> cut, cap)
        least = max(1, MIN_EPS >> cut if stochastic else 0)
        if self.eps is None:
            room = 1 << self.bits
            both = up > 0 and down > 0
            base = max(least, -(-(top + bottom + 3 - room) // 2), max(top, bottom) + 2 + both - room)
        else:
            base = min(max(least, to_float32_bits(round_to_float32(self.eps)) >> cut), cap)
        positive = max(1, top - base + 1) if up else 0
        negative = max(1, bottom - base + 1) if down else 0
        codes = (1 << self.bits) - 1
        if positive + negative > codes:
            room = max(codes - min(positive, negative), codes // 2)
            positive, negative = min(positive, room), min(negative, room)
        return Form(m, base, positive, negative)


def round_to_nearest(form: Form, bits: int) -> int:
    """Return the code of a value, rounded to nearest.

    Args:
        form: the section's parameters.
        bits: the value's binary32 bits.
    """
    a = bits & (SIGN - 1)
    if 2 * to_float(a, FLOAT32) < to_float(form.eps, FLOAT32):
        return 0
    c = ((a + (1 << form.cut) // 2) >> form.cut) - form.base + 1
    return _apply_sign(form, bits, max(1, c))


def round_stochastically(form: Form, bits: int, draw: int) -> int:
    """Return the code of a value, rounded up or down at random.

    Args:
        form: the section's parameters.
        bits: the value's binary32 bits.
        draw: 16 random bits.
    """
    a = bits & (SIGN - 1)
    if a >= form.eps:
        c = ((a + (draw << form.cut >> 16)) >> form.cut) - form.base + 1
    else:
        rate = round_to_float32(65536 / to_float(form.eps, FLOAT32))
        c = (int(round_to_float32(to_float(a, FLOAT32) * rate)) + draw) >> 16
    return _apply_sign(form, bits, c)


def _apply_sign(form: Form, bits: int, c: int) -> int:
    """Return the code of magnitude c with the sign of a value, clamped to the codes of that sign."""
    if bits < SIGN:
        return min(c, form.positive)
    c = min(c, form.negative)
    return form.positive + c if c else 0


def _expected_error(form: Form, sample: Sequence[int], rounding: str) -> float:
    """Return the expected sum of squared errors, in the page's order of operations."""
    sums = [0.0] * 16
    for i, x in enumerate(sample):
        if rounding == "nearest":
            low = high = round_to_nearest(form, x)
        else:
            low, high = round_stochastically(form, x, 0), round_stochastically(form, x, 0xFFFF)
        below = to_float(x, FLOAT32) - to_float(form.decode(low), FLOAT32)
        above = to_float(form.decode(high), FLOAT32) - to_float(x, FLOAT32)
        sums[i % 16] += abs(below * above)
    for w in (8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]
