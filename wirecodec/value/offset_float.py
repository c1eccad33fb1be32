"""``offset-float``: floats of few bits, whose codes begin at eps (formats/spec/value/offset-float.md)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, as_real, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.bit_packing import has_stray_bits, packed_size
from wirecodec.value.float32_convert import MAX_FLOAT32, from_float32, max_float32, to_float32

_HEADER = struct.Struct("<BBHHHI")
_ROUNDINGS = ("nearest", "stochastic")
_OVERFLOWS = ("clamp", "raise")


@dataclass(frozen=True)
class OffsetFloat(ValueCodec):
    """Offset float (range-based float) value codec.

    The codes stand for zero and for floats of ``mantissa`` bits from eps upwards, of both signs. There is no
    fixed exponent range. Parameters that are None are chosen per chunk. The range then covers the values, eps
    is the smallest for which the codes suffice, and the mantissa minimises a sample's squared error. It takes
    ``bits`` bits per value and 12 bytes per chunk. Rounding to nearest is contractive. Stochastic rounding is
    unbiased within the range.

    The paper estimates the range from the first iterations. Here it costs one pass over the selected values
    (0.15 ns each), is exact at every step, and needs no state.

    Source: Wang et al., *FFT-based Gradient Sparsification*, 2020, Algorithm 1 and Figure 8, with rounding
    and with codes for zero and negative values; formats/spec/value/offset-float.md.

    Args:
        bits: bits per value, 2 to 16.
        mantissa: bits of the mantissa without the leading one, 0 to 23.
        min: smallest value, at most 0; smaller values are clamped.
        max: largest value, at least 0; larger values are clamped.
        eps: smallest positive number that has a code; it is truncated to ``mantissa`` bits.
        rounding: "nearest" or "stochastic".
        overflow: "clamp", or "raise" to refuse values outside of a given ``min`` and ``max``. Clamped values
            are not reported: with ±1 and coefficients of ±10, most of the gradient is lost. On a GPU, "raise"
            encodes on the host.

    Raises:
        EncodeError: if a parameter is out of range; on encoding, if a float64 value is too large for float32,
            or if a value is out of the range and ``overflow`` is "raise".

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.3, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | offset-float(bits=4, mantissa=1)")).values
        array([ 1. , -2. ,  0.25,  3. ], dtype=float32)
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
    overflow: str = "clamp"

    def __post_init__(self) -> None:
        set_fields(self, bits=as_integer(self.bits, "offset-float: bits"))
        if not 2 <= self.bits <= 16:
            raise EncodeError(f"offset-float: bits is {self.bits}; it must be 2 to 16")
        if self.mantissa is not None:
            set_fields(self, mantissa=as_integer(self.mantissa, "offset-float: mantissa"))
            if not 0 <= self.mantissa <= 23:
                raise EncodeError(f"offset-float: mantissa is {self.mantissa}; it must be 0 to 23")
        for field, low, high in (("min", -math.inf, 0.0), ("max", 0.0, math.inf), ("eps", 0.0, math.inf)):
            given = getattr(self, field)
            if given is None:
                continue
            real = as_real(given, f"offset-float: {field}")
            set_fields(self, **{field: real})
            if not low <= real <= high or not _magnitude_bits(real) < 0x7F800000:
                raise EncodeError(
                    f"offset-float: {field} is {real!r}; it must be a finite binary32 number, {low} to {high}"
                )
        if self.eps is not None and _magnitude_bits(self.eps) == 0:
            raise EncodeError(f"offset-float: eps is {self.eps!r}; it must be 2^-149 or more")
        for field, valid in (("rounding", _ROUNDINGS), ("overflow", _OVERFLOWS)):
            if (name := getattr(self, field)) not in valid:
                raise EncodeError(
                    f"offset-float: {field} is {name!r}; it must be {valid[0]!r} or {valid[1]!r}"
                )

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values in at most two passes: the range if it is not given, then the codes."""
        from wirecodec.kernels.cpu.threads import map_ranges, run_parallel
        from wirecodec.kernels.cpu.value import offset_float

        bits = bits_of(to_float32(values, self.name))
        up, down = (0 if x is None else _magnitude_bits(x) for x in (self.max, self.min))
        if self.max is None or self.min is None or self.overflow == "raise":
            min_values = offset_float.UNIT * offset_float.MIN_UNITS_PER_THREAD
            ranges = map_ranges(lambda i, j: offset_float.find_range(bits[i:j]), bits.size, min_values)
            extremes = max(a for a, _ in ranges), max(b for _, b in ranges)
            self._check_range(*extremes)
            up = extremes[0] if self.max is None else up
            down = extremes[1] if self.min is None else down
        stochastic = self.rounding == "stochastic"
        m, base, positive, negative = offset_float.choose(
            bits,
            self.bits,
            -1 if self.mantissa is None else self.mantissa,
            0 if self.eps is None else _magnitude_bits(self.eps),
            up,
            down,
            self.max is not None,
            self.min is not None,
            _magnitude_bits(MAX_FLOAT32[values.dtype.name]),
            stochastic,
        )
        section = np.empty(_HEADER.size + packed_size(bits.size, self.bits), np.uint8)
        _HEADER.pack_into(section.data, 0, self.bits, m, 0, positive, negative, base)
        words = section[_HEADER.size :].view(np.uint32)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        run_parallel(
            lambda turns: offset_float.quantise(
                bits, self.bits, m, base, positive, negative, stochastic, low, high, words, turns
            ),
            -(-bits.size // offset_float.UNIT),
            offset_float.MIN_UNITS_PER_THREAD,
        )
        return section

    def _check_range(self, up: int, down: int) -> None:
        """Raise EncodeError if values are out of the range and this is not allowed.

        Args:
            up: binary32 bits of the largest positive value, or 0.
            down: those of the magnitude of the smallest negative value, or 0.
        """
        for field, limit, extreme, sign in (("max", self.max, up, 1), ("min", self.min, down, -1)):
            if self.overflow == "raise" and limit is not None and extreme > _magnitude_bits(limit):
                value = sign * float(np.uint32(extreme).view(np.float32))
                raise EncodeError(f"offset-float: a value is {value:g}, and {field} is {limit:g}")

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return _HEADER.size + packed_size(r, self.bits)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode codes to numbers, rounded to ``dtype``."""
        from wirecodec.kernels.cpu.threads import run_parallel
        from wirecodec.kernels.cpu.value import offset_float

        bits, m, base, positive, negative = cls.read_header(section, r, dtype)
        words = read_only(section)[_HEADER.size :].view("<u4")
        values, bad = np.empty(r, np.float32), np.zeros(1, np.bool_)
        run_parallel(
            lambda turns: offset_float.dequantise(
                words, bits, m, base, positive, negative, bits_of(values), bad, turns
            ),
            -(-r // offset_float.UNIT),
            offset_float.MIN_UNITS_PER_THREAD,
        )
        if bad[0]:
            raise Invalid("offset-float-code", f"a code is above {positive + negative}")
        return from_float32(values, dtype)

    @classmethod
    def read_header(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[int, int, int, int, int]:
        """Validate everything but the codes of a section.

        Returns:
            Bits per code, mantissa bits, base, number of positive codes, number of negative codes.

        Raises:
            Malformed: if length, parameters or padding are wrong.
            Invalid: if the range is not one of the element type.
        """
        if section.size < _HEADER.size:
            raise Malformed(
                "offset-float-length", f"{section.size} bytes; the parameters take {_HEADER.size}"
            )
        bits, m, reserved, positive, negative, base = _HEADER.unpack(section[: _HEADER.size].tobytes())
        if not 2 <= bits <= 16 or m > 23 or reserved:
            raise Malformed(
                "offset-float-parameter", f"bits is {bits}, mantissa is {m}, reserved is {reserved}"
            )
        if section.size != _HEADER.size + packed_size(r, bits):
            raise Malformed("offset-float-length", f"{section.size} bytes for {r} values of {bits} bits")
        top = base + max(positive, negative, 1) - 1 << 23 - m
        if base == 0 or positive + negative >= 1 << bits or top > _magnitude_bits(max_float32(dtype)):
            raise Invalid(
                "offset-float-range",
                f"base is {base}, with {positive} positive and {negative} negative codes",
            )
        if has_stray_bits(section[_HEADER.size :], r, bits):
            raise Malformed("offset-float-padding", "a bit after the last code is set")
        return bits, m, base, positive, negative


def _magnitude_bits(x: float) -> int:
    """Return the binary32 bits of |x|, or those of infinity if it is too large."""
    try:
        return int.from_bytes(struct.pack("<f", abs(x)), "little")
    except OverflowError:
        return 0x7F800000
