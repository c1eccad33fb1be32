"""Value codec 5, sign-scale: writing (spec/value/sign-scale.md, Writing); sums are in binary64."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import FLOAT64, Format, to_float, unpack_finite

SUMS = 64
SHRINK = 2.0**-64


def write_sign_scale(values: bytes, dtype: Format) -> bytes:
    """Write the mean magnitude and signs.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.

    Raises:
        ValueError: if an element is not finite.
    """
    bits = unpack_finite(values, dtype)
    scale = _compute_scale([to_float(word & (dtype.sign - 1), dtype) for word in bits])
    signs = bytearray(-(-len(bits) // 8))
    for i, word in enumerate(bits):
        signs[i // 8] |= (word > dtype.sign) << i % 8  # -0 equals the sign bit alone
    return struct.pack("<d" if dtype == FLOAT64 else "<f", scale) + bytes(signs)


def _compute_scale(magnitudes: list[float]) -> float:
    if min(magnitudes) == max(magnitudes):
        return magnitudes[0]
    total = sum_in_lanes(magnitudes)
    if math.isinf(total):
        return sum_in_lanes([m * SHRINK for m in magnitudes]) / len(magnitudes) / SHRINK
    return total / len(magnitudes)


def sum_in_lanes(numbers: list[float]) -> float:
    """Return the sum of numbers in the order that the page of sign-scale defines."""
    sums = [0.0] * SUMS
    for i, x in enumerate(numbers):
        sums[i % SUMS] += x
    for w in (32, 16, 8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]


@dataclass(frozen=True)
class SignScale:
    """Value codec 5."""

    id: ClassVar[int] = 5
    scheme: ClassVar[str] = "sign-scale"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write a magnitude and signs."""
        return write_sign_scale(values, dtype)
