"""The four element types, and conversions between them (SPEC sections 1 and 2.2; pages raw and qsgd).

``convert`` converts a number's bits to another format. The conversion is exact if the target is wider;
otherwise it rounds once to nearest, ties to even. It uses integers only, so the fractions of NaN are
preserved, and a port does not depend on its language's casts. ``round_to_float32`` turns Python's binary64
arithmetic into binary32 arithmetic.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """Binary floating-point format: sign, exponent, fraction, from the highest bit down."""

    id: int
    name: str
    exponent_bits: int
    fraction_bits: int

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return (1 + self.exponent_bits + self.fraction_bits) // 8

    @property
    def bias(self) -> int:
        """The number that is added to an exponent to store it."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The bits of +infinity; NaN have a greater magnitude, finite numbers a smaller one."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent_bits + self.fraction_bits)


FLOAT32 = Format(1, "float32", 8, 23)
FLOAT16 = Format(2, "float16", 5, 10)
BFLOAT16 = Format(3, "bfloat16", 8, 7)
FLOAT64 = Format(4, "float64", 11, 52)
FORMATS = (FLOAT32, FLOAT16, BFLOAT16, FLOAT64)
BY_ID = {f.id: f for f in FORMATS}
BY_NAME = {f.name: f for f in FORMATS}


def convert(bits: int, source: Format, target: Format) -> int:
    """Convert a number's bits to another format.

    A finite number beyond the target's range becomes infinite. A NaN keeps its sign and its leading fraction
    bits. If the target is narrower, the highest fraction bit is set, so that the fraction does not become 0.

    Args:
        bits: the number's bits.
        source: their format.
        target: the wanted format.
    """
    sign = target.sign if bits & source.sign else 0
    magnitude = bits & (source.sign - 1)
    exponent = magnitude >> source.fraction_bits
    fraction = magnitude & ((1 << source.fraction_bits) - 1)
    if magnitude >= source.infinity:
        shift = target.fraction_bits - source.fraction_bits
        if shift >= 0:
            fraction <<= shift
        elif fraction:
            fraction = fraction >> -shift | 1 << (target.fraction_bits - 1)
        return sign | target.infinity | fraction
    if magnitude == 0:
        return sign
    # The number is significand * 2^power; subnormal numbers have no hidden bit and the least normal exponent.
    significand = fraction if exponent == 0 else fraction | 1 << source.fraction_bits
    power = max(exponent, 1) - source.bias - source.fraction_bits
    leading = power + significand.bit_length() - 1  # 2^leading <= number < 2^(leading + 1)
    least_normal = 1 - target.bias
    last = max(leading, least_normal) - target.fraction_bits  # weight of the last bit that the target keeps
    drop = last - power
    if drop <= 0:
        kept = significand << -drop
    else:
        kept = significand >> drop
        rest = significand & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        if rest > half or (rest == half and kept & 1):
            kept += 1
    # A carry out of the fraction increments the exponent field. The result is correct, including infinity.
    result = kept
    if leading >= least_normal:
        result += (leading - least_normal) << target.fraction_bits
    return sign | min(result, target.infinity)


def round_to_float32(x: float) -> float:
    """Return the binary32 number nearest to x, ties to even; infinite if that overflows.

    After one binary64 product or quotient of binary32 numbers, this gives the result of binary32 arithmetic:
    binary64 has more than 2*24 + 1 significand bits, so the double rounding has no effect.
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def unpack_finite(values: bytes, dtype: Format) -> list[int]:
    """Return the elements as bits, for codecs that have no NaN and infinities.

    Raises:
        ValueError: if an element is not finite.
    """
    bits = unpack_elements(values, dtype.itemsize)
    for i, word in enumerate(bits):
        if word & (dtype.sign - 1) >= dtype.infinity:
            raise ValueError(f"value {i} is not finite")
    return bits


def unpack_as_float32(values: bytes, dtype: Format) -> list[int]:
    """Return elements as binary32 bits, the input of lossy codecs.

    Args:
        values: the elements' little-endian bytes.
        dtype: their format.

    Raises:
        ValueError: if an element is not finite in binary32.
    """
    result = [convert(bits, dtype, FLOAT32) for bits in unpack_elements(values, dtype.itemsize)]
    for i, bits in enumerate(result):
        if bits & (FLOAT32.sign - 1) >= FLOAT32.infinity:
            raise ValueError(f"value {i} is not finite in binary32")
    return result


def to_float(bits: int, source: Format) -> float:
    """Return the number with these bits, exactly (every format fits binary64)."""
    wide = convert(bits, source, FLOAT64)
    return float(struct.unpack("<d", wide.to_bytes(8, "little"))[0])


def to_float32_bits(x: float) -> int:
    """Return the bits of a binary32 number held in a Python float."""
    return int.from_bytes(struct.pack("<f", x), "little")


def unpack_elements(data: bytes, itemsize: int) -> list[int]:
    """Return consecutive little-endian elements as integers."""
    return [int.from_bytes(data[i : i + itemsize], "little") for i in range(0, len(data), itemsize)]


def pack_elements(bits: list[int], itemsize: int) -> bytes:
    """Return elements as little-endian bytes, the inverse of ``unpack_elements``."""
    return b"".join(b.to_bytes(itemsize, "little") for b in bits)


MIN_SCALE = 0x0D800000
"""The bits of 2^-100; the bits of positive binary32 numbers have the order of the numbers."""


def largest_finite(dtype: Format) -> int:
    """Return the bits of the largest finite binary32 number that the element type's range includes."""
    return min(convert(dtype.infinity - 1, dtype, FLOAT32), FLOAT32.infinity - 1)
