"""Value codec 12, 3lc: -1, 0 or 1 times a scale, in base 3, with runs of zeros (spec/value/3lc.md)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .errors import Invalid, Malformed
from .floats import FLOAT32, Format, convert, element_bytes, float_of, round32, singles
from .qsgd import largest_finite

POWERS = (81, 27, 9, 3, 1)
ZEROS = 121
FIRST_RUN = 243
LONGEST = 14


def decode_three_lc(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 12: a scale, and digits.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    if len(section) < 4:
        raise Malformed("3lc-length", f"{len(section)} bytes")
    scale = int.from_bytes(section[:4], "little")
    if scale > largest_finite(dtype):  # sign bit, infinity and NaN are greater
        raise Invalid("3lc-scale", f"scale {scale:#010x}")
    tokens = section[4:]
    if sum(_run(token) for token in tokens) != -(-r // len(POWERS)):
        raise Malformed("3lc-count", f"{len(tokens)} bytes of {r} values")
    for token, following in itertools.pairwise(tokens):
        if _of_zeros(token) and _of_zeros(following) and _run(token) < LONGEST:
            raise Malformed("3lc-run", f"a run of {_run(token)} before another")
    codes = [ZEROS if _of_zeros(token) else token for token in tokens for _ in range(_run(token))]
    magnitude = convert(scale, FLOAT32, dtype)
    words = (magnitude | dtype.sign, 0, magnitude)
    digits = [code // power % 3 for code in codes for power in POWERS]
    if any(digit != 1 for digit in digits[r:]):
        raise Malformed("3lc-padding", "a digit after the last value")
    return element_bytes([words[digit] for digit in digits[:r]], dtype.itemsize)


def _run(token: int) -> int:
    """How many bytes a byte stands for."""
    return token - FIRST_RUN + 2 if token >= FIRST_RUN else 1


def _of_zeros(token: int) -> bool:
    return token == ZEROS or token >= FIRST_RUN


def write_three_lc(values: bytes, dtype: Format, sparsity: float) -> bytes:
    """A scale, and the digits of what reaches its half.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        sparsity: the scale over the greatest magnitude, 1 or more and below 2.

    Raises ValueError where an element is not finite in binary32.
    """
    numbers = [float_of(word, FLOAT32) for word in singles(values, dtype)]
    greatest = max(abs(x) for x in numbers)
    scale = min(round32(greatest * sparsity), float_of(largest_finite(dtype), FLOAT32))
    half = round32(scale / 2)
    digits = [1 if x == 0 or abs(x) < half else 2 if x > 0 else 0 for x in numbers]
    return three_lc_section(scale, quartic(digits))


def quartic(digits: Sequence[int]) -> bytes:
    """Five digits a byte, without runs; what fills up the last byte is neutral."""
    padded = [*digits, *[1] * (-len(digits) % len(POWERS))]
    fives = [padded[i : i + len(POWERS)] for i in range(0, len(padded), len(POWERS))]
    return bytes(sum(digit * power for digit, power in zip(five, POWERS, strict=True)) for five in fives)


def three_lc_section(scale: float, codes: bytes) -> bytes:
    """A section from its scale and its bytes without runs."""
    out = bytearray(struct.pack("<f", scale))
    for code, group in itertools.groupby(codes):
        count = sum(1 for _ in group)
        if code == ZEROS:
            out += bytes([FIRST_RUN - 2 + LONGEST]) * (count // LONGEST)
            rest = count % LONGEST
            out += bytes([ZEROS] if rest == 1 else [FIRST_RUN - 2 + rest] if rest else [])
        else:
            out += bytes([code]) * count
    return bytes(out)


@dataclass(frozen=True)
class ThreeLC:
    """Value codec 12, as the writer takes it."""

    id: ClassVar[int] = 12
    sparsity: float = 1.0

    @property
    def scheme(self) -> str:
        """The codec as schemes spell it."""
        return f"3lc(sparsity={self.sparsity!r})"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Three levels of one scale."""
        return write_three_lc(values, dtype, self.sparsity)
