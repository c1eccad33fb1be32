"""Value codec 12, 3lc: writing (spec/value/3lc.md, Writing)."""

from __future__ import annotations

import itertools
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
    unpack_as_float32,
)
from formats.reference.value.three_lc import FIRST_RUN, MAX_RUN, POWERS, ZEROS


def write_three_lc(values: bytes, dtype: Format, sparsity: float) -> bytes:
    """Write a scale and digits; the digit of a value below half the scale is neutral.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        sparsity: ratio of the scale to the greatest magnitude, at least 1 and below 2.

    Raises:
        ValueError: if an element is not finite in binary32.
    """
    numbers = [to_float(word, FLOAT32) for word in unpack_as_float32(values, dtype)]
    greatest = max(abs(x) for x in numbers)
    scale = min(round_to_float32(greatest * sparsity), to_float(largest_finite(dtype), FLOAT32))
    half = round_to_float32(scale / 2)
    digits = [1 if x == 0 or abs(x) < half else 2 if x > 0 else 0 for x in numbers]
    return write_three_lc_section(scale, pack_quartic(digits))


def pack_quartic(digits: Sequence[int]) -> bytes:
    """Pack five digits per byte, without runs; digits after the last are neutral."""
    padded = [*digits, *[1] * (-len(digits) % len(POWERS))]
    fives = [padded[i : i + len(POWERS)] for i in range(0, len(padded), len(POWERS))]
    return bytes(sum(digit * power for digit, power in zip(five, POWERS, strict=True)) for five in fives)


def write_three_lc_section(scale: float, codes: bytes) -> bytes:
    """Write a section from its scale and its codes."""
    out = bytearray(struct.pack("<f", scale))
    for code, group in itertools.groupby(codes):
        count = sum(1 for _ in group)
        if code == ZEROS:
            out += bytes([FIRST_RUN - 2 + MAX_RUN]) * (count // MAX_RUN)
            rest = count % MAX_RUN
            out += bytes([ZEROS] if rest == 1 else [FIRST_RUN - 2 + rest] if rest else [])
        else:
            out += bytes([code]) * count
    return bytes(out)


@dataclass(frozen=True)
class ThreeLC:
    """Value codec 12."""

    id: ClassVar[int] = 12
    sparsity: float = 1.0

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"3lc(sparsity={self.sparsity!r})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write a section: the scale, and each value as one of -1, 0, 1 times the scale."""
        return write_three_lc(values, dtype, self.sparsity)
