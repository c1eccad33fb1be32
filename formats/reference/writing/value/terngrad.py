"""Value codec 11, terngrad: writing (spec/value/terngrad.md, Writing).

Arithmetic uses Python floats, rounded to binary32 where the page requires it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import (
    FLOAT32,
    MIN_SCALE,
    Format,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_as_float32,
)
from formats.reference.prng import draw16
from formats.reference.value.terngrad import BLOCK, PLACES

SUMS = 64
UNIT = 65_536


def write_terngrad(values: bytes, dtype: Format, *, clip: float | None, stream: int) -> bytes:
    """Write a scale and digits.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        clip: multiple of the root mean square at which magnitudes are clipped, or None.
        stream: stream of the chunk (SPEC section 5).

    Raises:
        ValueError: if an element is not finite in binary32.
    """
    numbers = [to_float(word, FLOAT32) for word in unpack_as_float32(values, dtype)]
    scale = max(abs(x) for x in numbers)
    if clip is not None:
        scale = min(scale, round_to_float32(clip * math.sqrt(_sum_squares(numbers) / len(numbers))))
    if to_float32_bits(scale) < MIN_SCALE:
        return bytes(4) + pack_digits([1] * len(numbers))
    inverse = round_to_float32(UNIT / scale)
    digits = []
    for p, x in enumerate(numbers):
        t = round(round_to_float32(min(abs(x), scale) * inverse))  # ties to even
        sent = (t + draw16(stream, p)) // UNIT
        digits.append(1 - sent if x < 0 else 1 + sent)
    return struct.pack("<f", scale) + pack_digits(digits)


def pack_digits(digits: list[int]) -> bytes:
    """Pack five digits per byte."""
    out = bytearray()
    for first in range(0, len(digits), BLOCK):
        block = digits[first : first + BLOCK]
        span = -(-len(block) // 5)
        block += [1] * (5 * span - len(block))
        out += bytes(sum(place * block[n * span + j] for n, place in enumerate(PLACES)) for j in range(span))
    return bytes(out)


def _sum_squares(numbers: list[float]) -> float:
    """Return Σx² in binary64: 64 partial sums, folded."""
    sums = [0.0] * SUMS
    for i, x in enumerate(numbers):
        sums[i % SUMS] += x * x
    for w in (32, 16, 8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]


@dataclass(frozen=True)
class TernGrad:
    """Value codec 11."""

    id: ClassVar[int] = 11
    clip: float | None = None

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return "terngrad" if self.clip is None else f"terngrad(clip={self.clip})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write a scale and ternary digits."""
        return write_terngrad(values, dtype, clip=self.clip, stream=stream)
