"""Value codec 4, qsgd: writing (spec/value/qsgd.md, Writing)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, Literal

from formats.reference.floats import (
    FLOAT32,
    MIN_SCALE,
    Format,
    largest_finite,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_as_float32,
)
from formats.reference.packed_codes import pack_codes
from formats.reference.prng import draw16


@dataclass(frozen=True)
class Qsgd:
    """Value codec 4."""

    id: ClassVar[int] = 4
    bits: int = 4
    bucket: int = 512
    norm: Literal["max", "l2"] = "max"

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"qsgd(bits={self.bits}, bucket={self.bucket}, norm={self.norm})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write levels of a scale per bucket."""
        norm = ("max", "l2").index(self.norm)
        return write_qsgd(values, dtype, bits=self.bits, bucket=self.bucket, norm=norm, stream=stream)


UNIT = 65_536


def write_qsgd(values: bytes, dtype: Format, *, bits: int, bucket: int, norm: int, stream: int) -> bytes:
    """Write parameters, scales and codes.

    Args:
        values: the elements' little-endian bytes.
        dtype: their format.
        bits: bits per code, 2 … 8.
        bucket: values per scale, a multiple of 16.
        norm: 0 (max) or 1 (l2).
        stream: stream of the chunk (SPEC section 5).

    Raises:
        ValueError: if an element is not finite in binary32.
    """
    numbers = [to_float(word, FLOAT32) for word in unpack_as_float32(values, dtype)]
    s = (1 << (bits - 1)) - 1
    scales = []
    codes = []
    for first in range(0, len(numbers), bucket):
        members = numbers[first : first + bucket]
        scale = _l2_scale(members, dtype) if norm else max(abs(x) for x in members)
        if to_float32_bits(scale) < MIN_SCALE:
            scales.append(0.0)
            codes += [s] * len(members)
            continue
        scales.append(scale)
        inv = round_to_float32(s * UNIT / scale)
        for i, x in enumerate(members):
            t = int(round_to_float32(x * inv))  # toward zero
            q = (t + draw16(stream, first + i)) >> 16  # toward minus infinity
            codes.append(max(-s, min(q, s)) + s)
    head = struct.pack("<BBHI", bits, norm, 0, bucket) + struct.pack(f"<{len(scales)}f", *scales)
    return head + pack_codes(codes, bits)


def _l2_scale(members: list[float], dtype: Format) -> float:
    """Return the scale of norm 1: 16 partial sums in binary64, folded; at most the largest finite scale."""
    sums = [0.0] * 16
    for i, x in enumerate(members):
        sums[i % 16] += x * x
    for w in (8, 4, 2, 1):
        for j in range(w):
            sums[j] += sums[j + w]
    return min(round_to_float32(math.sqrt(sums[0])), to_float(largest_finite(dtype), FLOAT32))
