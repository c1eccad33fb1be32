"""Value codec 15, mean: one number for all values (spec/value/mean.md)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from .errors import Invalid, Malformed
from .floats import FLOAT64, Format, convert, element_bytes, finite_elements, float_of
from .sign_scale import SHRINK, scale_format, sum_in_lanes


def decode_mean(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 15: a number.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    form = scale_format(dtype)
    if len(section) != form.itemsize:
        raise Malformed("mean-length", f"{len(section)} bytes")
    number = int.from_bytes(section, "little")
    if number & (form.sign - 1) > convert(dtype.infinity - 1, dtype, form):
        raise Invalid("mean-number", f"number {number:#x}")
    return element_bytes([convert(number, form, dtype)] * r, dtype.itemsize)


def write_mean(values: bytes, dtype: Format) -> bytes:
    """The mean of the elements.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.

    Raises ValueError where an element is not finite.
    """
    bits = finite_elements(values, dtype)
    numbers = [float_of(word, dtype) for word in bits]
    mean = numbers[0]
    if any(word != bits[0] for word in bits):
        mean = sum_in_lanes(numbers) / len(numbers)
        if not math.isfinite(mean):
            mean = sum_in_lanes([x * SHRINK for x in numbers]) / len(numbers) / SHRINK
    return struct.pack("<d" if dtype == FLOAT64 else "<f", mean)


@dataclass(frozen=True)
class Mean:
    """Value codec 15, as the writer takes it."""

    id: ClassVar[int] = 15
    scheme: ClassVar[str] = "mean"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """One number."""
        return write_mean(values, dtype)
