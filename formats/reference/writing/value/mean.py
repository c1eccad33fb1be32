"""Value codec 15, mean: writing (spec/value/mean.md, Writing)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import FLOAT64, Format, to_float, unpack_finite
from formats.reference.writing.value.sign_scale import SHRINK, sum_in_lanes


def write_mean(values: bytes, dtype: Format) -> bytes:
    """Write the mean of the elements.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.

    Raises:
        ValueError: if an element is not finite.
    """
    bits = unpack_finite(values, dtype)
    numbers = [to_float(word, dtype) for word in bits]
    mean = numbers[0]
    if any(word != bits[0] for word in bits):
        mean = sum_in_lanes(numbers) / len(numbers)
        if not math.isfinite(mean):
            mean = sum_in_lanes([x * SHRINK for x in numbers]) / len(numbers) / SHRINK
    return struct.pack("<d" if dtype == FLOAT64 else "<f", mean)


@dataclass(frozen=True)
class Mean:
    """Value codec 15."""

    id: ClassVar[int] = 15
    scheme: ClassVar[str] = "mean"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write one number."""
        return write_mean(values, dtype)
