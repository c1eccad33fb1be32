"""``raw``: uncompressed values, or values rounded to 16 bits (formats/spec/value/raw.md; codecs 1, 2 and 3).

``Raw("float16")`` and ``Raw("bfloat16")`` store float32 and float64 tensors in 16 bits and decode to the
tensor's type. Tensors of a 16-bit type are stored unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.support import SectionBatch
from wirecodec.validation import set_fields
from wirecodec.value.base import ValueCodec

_MIN_VALUES_PER_THREAD = 2**18
"""Values that justify another thread."""


@dataclass(frozen=True)
class Raw(ValueCodec):
    """Raw value codec.

    It takes 8 · itemsize bits per value and is lossless if ``dtype`` is None. Otherwise it takes 16 bits per
    value and rounds to nearest, ties to even. For normal numbers the relative error is then at most 2^-11
    (float16) or 2^-8 (bfloat16). NaN and Inf are preserved.

    Source: formats/spec/value/raw.md.

    Args:
        dtype: None, "float16" or "bfloat16".

    Raises:
        EncodeError: if ``dtype`` is anything else; on encoding, if a finite value is too large for 16 bits.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.1], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | raw(bfloat16)")).values
        array([ 1.        , -2.        ,  0.10009766], dtype=float32)
    """

    name: ClassVar[str] = "raw"
    wire_id: ClassVar[int] = 1
    of_any_type: ClassVar[bool] = True
    carries_nonfinite: ClassVar[bool] = True
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.dtype not in (None, "float16", "bfloat16"):
            raise EncodeError(f"raw: dtype is {self.dtype!r}; it must be None, 'float16' or 'bfloat16'")
        if self.dtype is not None:
            set_fields(self, of_any_type=False)  # only floats can be narrowed

    def keeps(self, dtype: np.dtype[Any]) -> bool:
        """Tell whether all values of an element type are decoded bit for bit; those of 16 bits always are."""
        return self.dtype is None or dtype.itemsize == 2

    def choose(self, values: Array, stream: int) -> tuple[Raw | Raw16Bit, Bytes]:
        """Choose the wire codec for the type of the values, and encode them with it."""
        codec: Raw | Raw16Bit = Raw()
        if self.dtype is not None and values.dtype.itemsize != 2:
            codec = RawFloat16() if self.dtype == "float16" else RawBfloat16()
        return codec, codec.encode(values, stream)

    def encode(self, values: Array, stream: int) -> Bytes:
        """View the values as bytes."""
        return values.view(np.uint8)

    def encode_batch(self, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
        """Encode the values of many tensors, each as ``choose`` does; see ``ValueCodec``."""
        wire_id, stored = self.wire_id, values
        if self.dtype is not None and values.dtype.itemsize != 2:
            codec = RawFloat16 if self.dtype == "float16" else RawBfloat16
            wire_id, (stored, over) = codec.wire_id, round_to_16_bits(bits_of(values), codec.stored)
            if over:
                return None
        source, lengths = read_only(stored.view(np.uint8)), np.diff(cuts) * stored.itemsize

        return SectionBatch.of_slices(wire_id, source, cuts[:-1] * stored.itemsize, lengths)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return r * (dtype.itemsize if self.dtype is None else 2)

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """View the sections of many tensors as values; see ``ValueCodec``."""
        if (lengths != np.diff(cuts) * dtype.itemsize).any():
            return None
        return words.view(dtype), starts * 4 // dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """View the section as values."""
        _check_length(section, r, dtype.itemsize)
        return section.view(dtype)


class Raw16Bit(ValueCodec):
    """Base class of 16-bit storage of float32 and float64 tensors; ``stored`` is the 16-bit type."""

    carries_nonfinite: ClassVar[bool] = True
    name: ClassVar[str]
    wire_id: ClassVar[int]
    stored: ClassVar[np.dtype[Any]]

    def encode(self, values: Array, stream: int) -> Bytes:
        """Round values to 16 bits; raise EncodeError at the first finite value that overflows."""
        from wirecodec.kernels.cpu.coding import narrow

        bits = bits_of(values)
        out, over = round_to_16_bits(bits, self.stored)
        if over:
            wide = np.array([np.inf], values.dtype).view(bits.dtype)[0]
            magnitude = bits.dtype.type((1 << (8 * bits.itemsize - 1)) - 1)
            infinity = np.uint16(0x7C00 if self.stored == np.float16 else 0x7F80)
            at = int(narrow.first_overflow(out, infinity, bits, wide, magnitude))
            raise EncodeError(f"{float(values[at])} is too large for {self.stored}", position=at)
        return out.view(np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return 2 * r

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Widen 16-bit values exactly, NaN payloads included."""
        if dtype.itemsize == 2:
            raise Invalid("raw-dtype", f"the tensor is {dtype}; {cls.name} needs float32 or float64")
        _check_length(section, r, 2)
        single = widen(section.view(cls.stored))
        return single if dtype == np.float32 else _to_float64(single)

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """Widen the sections of many tensors; see ``ValueCodec``."""
        from wirecodec.kernels.cpu import support

        if dtype.itemsize == 2 or (lengths != np.diff(cuts) * 2).any():
            return None
        stored = np.empty(int(cuts[-1]), cls.stored)
        support.gather_slices(words.view(np.uint8), starts * 4, stored.view(np.uint8), cuts * 2)
        single = widen(stored)
        return single if dtype == np.float32 else _to_float64(single), cuts[:-1]


@dataclass(frozen=True)
class RawFloat16(Raw16Bit):
    """Raw value codec with float16 storage; ``Raw("float16")`` chooses it."""

    name: ClassVar[str] = "raw-float16"
    wire_id: ClassVar[int] = 2
    stored: ClassVar[np.dtype[Any]] = np.dtype(np.float16)


@dataclass(frozen=True)
class RawBfloat16(Raw16Bit):
    """Raw value codec with bfloat16 storage; ``Raw("bfloat16")`` chooses it."""

    name: ClassVar[str] = "raw-bfloat16"
    wire_id: ClassVar[int] = 3
    stored: ClassVar[np.dtype[Any]] = BFLOAT16


def round_to_16_bits(bits: Array, stored: np.dtype[Any]) -> tuple[Array, bool]:
    """Round numbers to a 16-bit type, to nearest, ties to even.

    Args:
        bits: (r,) u32 or u64 bits of float32 or float64 values.
        stored: float16 or bfloat16.

    Returns:
        (r,) u16 bits, and True if a finite value overflowed.
    """
    from wirecodec.kernels.cpu.coding import narrow
    from wirecodec.kernels.cpu.threads import map_ranges

    out = np.empty(bits.size, np.uint16)
    if bits.itemsize == 4:
        convert = narrow.half_from_f32 if stored == np.float16 else narrow.bfloat16_from_f32
    else:
        convert = narrow.half_from_f64 if stored == np.float16 else narrow.bfloat16_from_f64
    return out, any(map_ranges(lambda i, j: convert(bits[i:j], out[i:j]), bits.size, _MIN_VALUES_PER_THREAD))


def widen(values: Array) -> Array:
    """Convert 16-bit values to float32, exactly; return float32 and float64 values unchanged."""
    from wirecodec.kernels.cpu.coding import narrow
    from wirecodec.kernels.cpu.threads import map_ranges

    if values.dtype.itemsize != 2:
        return values
    single, bits = np.empty(values.size, np.uint32), bits_of(np.ascontiguousarray(values))
    convert = narrow.single_from_half if values.dtype == np.float16 else narrow.single_from_bfloat16
    map_ranges(lambda i, j: convert(bits[i:j], single[i:j]), bits.size, _MIN_VALUES_PER_THREAD)
    return single.view(np.float32)


def _to_float64(single: Array) -> Array:
    """Convert float32 to float64 exactly; NaN by its bits, because processors quiet signalling NaN."""
    with np.errstate(invalid="ignore"):  # a signalling NaN raises this warning
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
    """Raise Malformed if a section does not hold r values of ``width`` bytes."""
    if section.size != r * width:
        raise Malformed("raw-length", f"{section.size} bytes for {r} values of {width} bytes")
