"""Value codec 11, terngrad: minus, zero or plus a scale, five digits a byte (spec/value/terngrad.md).

Reading works on integers. Writing computes in Python floats, rounded to binary32 where the page says so.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from .draws import draw16
from .errors import Invalid, Malformed
from .floats import (
    FLOAT32,
    Format,
    bits32,
    convert,
    element_bytes,
    float_of,
    round32,
    singles,
)
from .qsgd import LEAST_SCALE, largest_finite

BLOCK = 320
PLACES = (81, 27, 9, 3, 1)
SUMS = 64
UNIT = 65_536


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
    return element_bytes(values, dtype.itemsize)


def write_terngrad(values: bytes, dtype: Format, *, clip: float | None, stream: int) -> bytes:
    """A scale and digits.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        clip: root mean squares above which values are cut, or None.
        stream: that of the chunk (SPEC section 5).

    Raises ValueError where an element is not finite in binary32.
    """
    numbers = [float_of(word, FLOAT32) for word in singles(values, dtype)]
    scale = max(abs(x) for x in numbers)
    if clip is not None:
        scale = min(scale, round32(clip * math.sqrt(_squares(numbers) / len(numbers))))
    if bits32(scale) < LEAST_SCALE:
        return bytes(4) + pack([1] * len(numbers))
    inverse = round32(UNIT / scale)
    digits = []
    for p, x in enumerate(numbers):
        t = round(round32(min(abs(x), scale) * inverse))  # ties to even
        sent = (t + draw16(stream, p)) // UNIT
        digits.append(1 - sent if x < 0 else 1 + sent)
    return struct.pack("<f", scale) + pack(digits)


def pack(digits: list[int]) -> bytes:
    """Five digits a byte."""
    out = bytearray()
    for first in range(0, len(digits), BLOCK):
        block = digits[first : first + BLOCK]
        span = -(-len(block) // 5)
        block += [1] * (5 * span - len(block))
        out += bytes(sum(place * block[n * span + j] for n, place in enumerate(PLACES)) for j in range(span))
    return bytes(out)


def _squares(numbers: list[float]) -> float:
    """Σx² in binary64: 64 partial sums, folded in halves."""
    sums = [0.0] * SUMS
    for i, x in enumerate(numbers):
        sums[i % SUMS] += x * x
    for w in (32, 16, 8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return sums[0]


@dataclass(frozen=True)
class TernGrad:
    """Value codec 11, as the writer takes it."""

    id: ClassVar[int] = 11
    clip: float | None = None

    @property
    def scheme(self) -> str:
        """The codec as schemes spell it."""
        return "terngrad" if self.clip is None else f"terngrad(clip={self.clip})"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Digits of a scale."""
        return write_terngrad(values, dtype, clip=self.clip, stream=stream)
