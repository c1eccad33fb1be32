"""``offset-float``: floats of few bits, whose codes begin at eps (formats/spec/value/offset-float.md).

The range-based float of the FFT paper (Algorithm 1, Figure 8), with its gaps closed: zero and negative values
have codes of their own, and values are rounded, not cut.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, as_real, settle
from wirecodec.value.bit_packing import packed_size, stray_bits
from wirecodec.value.float32_convert import LARGEST, as_single, from_single, largest_single

__all__ = ["OffsetFloat"]

_HEAD = struct.Struct("<BBHHHI")
_ROUNDINGS = ("nearest", "stochastic")


@dataclass(frozen=True)
class OffsetFloat:
    """Floats without a fixed exponent range: zero, and those of ``mantissa`` bits from eps on, of both signs.

    What is not given is chosen for each chunk: the range is that of the values, eps the least for which all
    codes suffice, the mantissa the one of least squared error.

    Args:
        bits: 2 to 16 a value.
        mantissa: its bits, 0 to 23, without the leading one.
        min: the least value, 0 or less; those below it become the nearest there is.
        max: the greatest value, 0 or more.
        eps: the least positive number that has a code, cut to ``mantissa`` bits.
        rounding: "nearest", or "stochastic", which is unbiased within the range.
    """

    name: ClassVar[str] = "offset-float"
    wire_id: ClassVar[int] = 8
    carries_nonfinite: ClassVar[bool] = False
    bits: int = 8
    mantissa: int | None = None
    min: float | None = None
    max: float | None = None
    eps: float | None = None
    rounding: str = "nearest"

    def __post_init__(self) -> None:
        settle(self, bits=as_integer(self.bits, "offset-float: bits"))
        if not 2 <= self.bits <= 16:
            raise EncodeError(f"offset-float: bits is {self.bits}; it must be from 2 to 16")
        if self.mantissa is not None:
            settle(self, mantissa=as_integer(self.mantissa, "offset-float: mantissa"))
            if not 0 <= self.mantissa <= 23:
                raise EncodeError(f"offset-float: mantissa is {self.mantissa}; it must be from 0 to 23")
        for field, low, high in (("min", -math.inf, 0.0), ("max", 0.0, math.inf), ("eps", 0.0, math.inf)):
            given = getattr(self, field)
            if given is None:
                continue
            real = as_real(given, f"offset-float: {field}")
            settle(self, **{field: real})
            if not low <= real <= high or not _magnitude(real) < 0x7F800000:
                raise EncodeError(
                    f"offset-float: {field} is {real!r}; it must be a binary32 number from {low} to {high}"
                )
        if self.eps is not None and _magnitude(self.eps) == 0:
            raise EncodeError(f"offset-float: eps is {self.eps!r}; it must be 2^-149 or more")
        if self.rounding not in _ROUNDINGS:
            raise EncodeError(
                f"offset-float: rounding is {self.rounding!r}; it must be 'nearest' or 'stochastic'"
            )

    def encode(self, values: Array, stream: int) -> Bytes:
        """The range where it is not given, the parameters from a sample, and the codes: two passes."""
        from wirecodec.kernels.cpu.threads import in_ranges, share
        from wirecodec.kernels.cpu.value import offset_float

        bits = bits_of(as_single(values, self.name))
        up, down = (0 if x is None else _magnitude(x) for x in (self.max, self.min))
        if self.max is None or self.min is None:
            least = offset_float.UNIT * offset_float.LEAST_UNITS
            found = in_ranges(lambda i, j: offset_float.reach(bits[i:j]), bits.size, least)
            up = max(a for a, _ in found) if self.max is None else up
            down = max(b for _, b in found) if self.min is None else down
        stochastic = self.rounding == "stochastic"
        m, base, positive, negative = offset_float.choose(
            bits,
            self.bits,
            -1 if self.mantissa is None else self.mantissa,
            0 if self.eps is None else _magnitude(self.eps),
            up,
            down,
            self.max is not None,
            self.min is not None,
            _magnitude(LARGEST[values.dtype.name]),
            stochastic,
        )
        section = np.empty(_HEAD.size + packed_size(bits.size, self.bits), np.uint8)
        _HEAD.pack_into(section.data, 0, self.bits, m, 0, positive, negative, base)
        words = section[_HEAD.size :].view(np.uint32)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        share(
            lambda turns: offset_float.quantise(
                bits, self.bits, m, base, positive, negative, stochastic, low, high, words, turns
            ),
            -(-bits.size // offset_float.UNIT),
            offset_float.LEAST_UNITS,
        )
        return section

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return _HEAD.size + packed_size(r, self.bits)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The numbers that the codes stand for, rounded to ``dtype``."""
        from wirecodec.kernels.cpu.threads import share
        from wirecodec.kernels.cpu.value import offset_float

        bits, m, base, positive, negative = cls.opened(section, r, dtype)
        words = read_only(section)[_HEAD.size :].view("<u4")
        values, bad = np.empty(r, np.float32), np.zeros(1, np.bool_)
        share(
            lambda turns: offset_float.dequantise(
                words, bits, m, base, positive, negative, bits_of(values), bad, turns
            ),
            -(-r // offset_float.UNIT),
            offset_float.LEAST_UNITS,
        )
        if bad[0]:
            raise Invalid("offset-float-code", f"a code is above {positive + negative}")
        return from_single(values, dtype)

    @classmethod
    def opened(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[int, int, int, int, int]:
        """Bits, mantissa, base, positive and negative codes, after every check but that of the codes."""
        if section.size < _HEAD.size:
            raise Malformed("offset-float-length", f"{section.size} bytes; the parameters take {_HEAD.size}")
        bits, m, reserved, positive, negative, base = _HEAD.unpack(section[: _HEAD.size].tobytes())
        if not 2 <= bits <= 16 or m > 23 or reserved:
            raise Malformed("offset-float-parameter", f"bits {bits}, mantissa {m}, reserved {reserved}")
        if section.size != _HEAD.size + packed_size(r, bits):
            raise Malformed("offset-float-length", f"{section.size} bytes for {r} values of {bits} bits")
        most = base + max(positive, negative, 1) - 1 << 23 - m
        if base == 0 or positive + negative >= 1 << bits or most > _magnitude(largest_single(dtype)):
            raise Invalid(
                "offset-float-range", f"base {base}, {positive} positive and {negative} negative codes"
            )
        if stray_bits(section[_HEAD.size :], r, bits):
            raise Malformed("offset-float-padding", "a bit after the last code is set")
        return bits, m, base, positive, negative


def _magnitude(x: float) -> int:
    """The bits of |x| as a binary32 number; those of infinity where it is too large."""
    try:
        return int.from_bytes(struct.pack("<f", abs(x)), "little")
    except OverflowError:
        return 0x7F800000
