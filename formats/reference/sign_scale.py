"""Value codec 5, sign-scale: one magnitude and a sign bit a value (spec/value/sign-scale.md).

Reading works on integers. Writing sums in Python floats, which are binary64.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from .errors import Invalid, Malformed
from .floats import FLOAT32, FLOAT64, Format, convert, element_bytes, finite_elements, float_of

SUMS = 64
SHRINK = 2.0**-64


def scale_format(dtype: Format) -> Format:
    """The type of the scale."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def decode_sign_scale(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 5: a scale, and signs.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    form = scale_format(dtype)
    if len(section) != form.itemsize + -(-r // 8):
        raise Malformed("sign-scale-length", f"{len(section)} bytes of {r} values")
    scale = int.from_bytes(section[: form.itemsize], "little")
    if scale > convert(dtype.infinity - 1, dtype, form):  # sign bit, infinity and NaN are greater
        raise Invalid("sign-scale-scale", f"scale {scale:#x}")
    signs = section[form.itemsize :]
    if r % 8 and signs[-1] >> r % 8:
        raise Malformed("sign-scale-padding", "a bit after the last sign is set")
    magnitude = convert(scale, form, dtype)
    negative = [signs[i // 8] >> i % 8 & 1 for i in range(r)]
    return element_bytes([magnitude | dtype.sign * minus for minus in negative], dtype.itemsize)


def write_sign_scale(values: bytes, dtype: Format) -> bytes:
    """The mean magnitude, and signs.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.

    Raises ValueError where an element is not finite.
    """
    bits = finite_elements(values, dtype)
    scale = _scale([float_of(word & (dtype.sign - 1), dtype) for word in bits])
    signs = bytearray(-(-len(bits) // 8))
    for i, word in enumerate(bits):
        signs[i // 8] |= (word > dtype.sign) << i % 8  # -0 is no more than the sign bit alone
    return struct.pack("<d" if dtype == FLOAT64 else "<f", scale) + bytes(signs)


def _scale(magnitudes: list[float]) -> float:
    if min(magnitudes) == max(magnitudes):
        return magnitudes[0]
    total = sum_in_lanes(magnitudes)
    if math.isinf(total):
        return sum_in_lanes([m * SHRINK for m in magnitudes]) / len(magnitudes) / SHRINK
    return total / len(magnitudes)


def sum_in_lanes(numbers: list[float]) -> float:
    """Their sum in the order of sign-scale's page."""
    sums = [0.0] * SUMS
    for i, x in enumerate(numbers):
        sums[i % SUMS] += x
    for w in (32, 16, 8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]


@dataclass(frozen=True)
class SignScale:
    """Value codec 5, as the writer takes it."""

    id: ClassVar[int] = 5
    scheme: ClassVar[str] = "sign-scale"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Signs times a magnitude."""
        return write_sign_scale(values, dtype)
