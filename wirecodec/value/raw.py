"""``raw``: the values themselves, or narrowed to 16 bits (formats/spec/value/raw.md; codecs 1, 2 and 3).

``Raw()`` stores the tensor's own type. ``Raw("float16")`` and ``Raw("bfloat16")`` store float32 and float64
tensors in 16 bits, which come back in the tensor's type; a tensor of a 16-bit type is stored as it is. NaN
and Inf are carried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import BFLOAT16, Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits

__all__ = ["Narrowed", "Raw", "RawBfloat16", "RawFloat16", "narrowed", "widened"]

_LEAST = 2**18
"""Values that are worth a thread."""


@dataclass(frozen=True)
class Raw:
    """Lossless with ``dtype`` None; "float16" or "bfloat16" round once, to nearest even."""

    name: ClassVar[str] = "raw"
    wire_id: ClassVar[int] = 1
    carries_nonfinite: ClassVar[bool] = True
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in (None, "float16", "bfloat16"):
            raise EncodeError(f"raw: dtype is {self.dtype!r}; it must be None, 'float16' or 'bfloat16'")

    def choose(self, values: Array, stream: int) -> tuple[Raw | Narrowed, Bytes]:
        """The wire codec for values of this type, and its section."""
        codec: Raw | Narrowed = Raw()
        if self.dtype is not None and values.dtype.itemsize != 2:
            codec = RawFloat16() if self.dtype == "float16" else RawBfloat16()
        return codec, codec.encode(values, stream)

    def encode(self, values: Array, stream: int) -> Bytes:
        """The bytes of the values, not copied."""
        return values.view(np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return r * (dtype.itemsize if self.dtype is None else 2)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """A view of the section."""
        _check_length(section, r, dtype.itemsize)
        return section.view(dtype)


class Narrowed:
    """16-bit storage of float32 and float64 tensors; ``stored`` is the 16-bit type."""

    carries_nonfinite: ClassVar[bool] = True
    name: ClassVar[str]
    wire_id: ClassVar[int]
    stored: ClassVar[np.dtype[Any]]

    def encode(self, values: Array, stream: int) -> Bytes:
        """Rounded once; EncodeError at the first finite value that would become infinite."""
        from wirecodec.kernels.cpu.coding import narrow

        bits = bits_of(values)
        out, over = narrowed(bits, self.stored)
        if over:
            wide = np.array([np.inf], values.dtype).view(bits.dtype)[0]
            magnitude = bits.dtype.type((1 << (8 * bits.itemsize - 1)) - 1)
            infinity = np.uint16(0x7C00 if self.stored == np.float16 else 0x7F80)
            at = int(narrow.first_overflow(out, infinity, bits, wide, magnitude))
            raise EncodeError(f"{float(values[at])} is too large for {self.stored}", position=at)
        return out.view(np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return 2 * r

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Widened exactly, NaN payloads included."""
        if dtype.itemsize == 2:
            raise Invalid("raw-dtype", f"{cls.name} of a {dtype} tensor")
        _check_length(section, r, 2)
        single = widened(section.view(cls.stored))
        return single if dtype == np.float32 else _double(single)


@dataclass(frozen=True)
class RawFloat16(Narrowed):
    """binary16 storage."""

    name: ClassVar[str] = "raw-float16"
    wire_id: ClassVar[int] = 2
    stored: ClassVar[np.dtype[Any]] = np.dtype(np.float16)


@dataclass(frozen=True)
class RawBfloat16(Narrowed):
    """bfloat16 storage."""

    name: ClassVar[str] = "raw-bfloat16"
    wire_id: ClassVar[int] = 3
    stored: ClassVar[np.dtype[Any]] = BFLOAT16


def narrowed(bits: Array, stored: np.dtype[Any]) -> tuple[Array, bool]:
    """u32 or u64 bits as u16 bits of a 16-bit type, rounded once; and whether a finite value overflowed."""
    from wirecodec.kernels.cpu.coding import narrow
    from wirecodec.kernels.cpu.threads import in_ranges

    out = np.empty(bits.size, np.uint16)
    if bits.itemsize == 4:
        convert = narrow.half_from_f32 if stored == np.float16 else narrow.bfloat16_from_f32
    else:
        convert = narrow.half_from_f64 if stored == np.float16 else narrow.bfloat16_from_f64
    return out, any(in_ranges(lambda i, j: convert(bits[i:j], out[i:j]), bits.size, _LEAST))


def widened(values: Array) -> Array:
    """Values in a type that kernels do arithmetic in: 16-bit types become float32, exactly."""
    from wirecodec.kernels.cpu.coding import narrow
    from wirecodec.kernels.cpu.threads import in_ranges

    if values.dtype.itemsize != 2:
        return values
    single, bits = np.empty(values.size, np.uint32), bits_of(np.ascontiguousarray(values))
    convert = narrow.single_from_half if values.dtype == np.float16 else narrow.single_from_bfloat16
    in_ranges(lambda i, j: convert(bits[i:j], single[i:j]), bits.size, _LEAST)
    return single.view(np.float32)


def _double(single: Array) -> Array:
    """float32 to float64, exactly; NaN by its bits, since a processor may quiet one that it converts."""
    with np.errstate(invalid="ignore"):  # that quieting is reported as an invalid operation
        double = single.astype(np.float64)
    if (nan := np.isnan(single)).any():
        bits = single[nan].view(np.uint32).astype(np.uint64)
        sign, fraction = (
            (bits >> np.uint64(31)) << np.uint64(63),
            (bits & np.uint64(0x7FFFFF)) << np.uint64(29),
        )
        double.view(np.uint64)[nan] = sign | np.uint64(0x7FF << 52) | fraction
    return double


def _check_length(section: Bytes, r: int, width: int) -> None:
    if section.size != r * width:
        raise Malformed("raw-length", f"{section.size} bytes for {r} values of {width}")
