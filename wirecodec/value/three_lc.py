"""``3lc``: three levels, five values per byte, run-length-coded zeros (formats/spec/value/3lc.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Malformed
from wirecodec.kernels.layout import TERNARY_DIGITS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.float32_convert import MAX_FLOAT32, from_float32, max_float32, to_float32
from wirecodec.value.scale import read_scale, sign_words

_HEAD = 4


@dataclass(frozen=True)
class ThreeLC(ValueCodec):
    """3LC value codec.

    A value is rounded to -1, 0 or 1 times the scale. Five values take one byte, and up to 14 bytes of zeros
    become one. It takes at most 1.6 bits per value, 0.115 for zeros, and 4 bytes per chunk. Not unbiased.
    Contractive: ‖Q(v) - v‖² ≤ (1 - c) ‖v‖² with c = (1 - (sparsity - 1)²)/r. This c is small, so residuals
    can be large, and large learning rates then diverge.

    Source: Lim et al., *3LC*, 2019 (3-value quantisation with sparsity multiplication, quartic encoding,
    zero-run encoding); formats/spec/value/3lc.md.

    Args:
        sparsity: scale divided by the largest magnitude, at least 1 and below 2; larger values give more
            zeros.

    Raises:
        EncodeError: if ``sparsity`` is out of range; on encoding, if a float64 value is too large for
            float32.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | 3lc")).values
        array([ 0., -3.,  0.,  3.], dtype=float32)
    """

    name: ClassVar[str] = "3lc"
    wire_id: ClassVar[int] = 12
    carries_nonfinite: ClassVar[bool] = False
    sparsity: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, sparsity=as_real(self.sparsity, "3lc: sparsity"))
        if not 1 <= self.sparsity < 2:
            raise EncodeError(f"3lc: sparsity is {self.sparsity}; it must be at least 1 and below 2")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values in two passes over them and one over the bytes."""
        from wirecodec.kernels.cpu.value import three_lc

        bits = bits_of(to_float32(values, self.name))
        top = np.array([three_lc.max_magnitude(bits)], np.uint32).view(np.float32)[0]
        scale = np.float32(min(float(top) * self.sparsity, MAX_FLOAT32[values.dtype.name]))
        least = max(bits_of(np.array([scale * np.float32(0.5)]))[0], np.uint32(1))
        count = -(-bits.size // three_lc.DIGITS)
        codes = np.empty(count + three_lc.WRITE_MARGIN, np.uint8)
        three_lc.quantise(bits, least, codes)
        section = np.empty(_HEAD + codes.size, np.uint8)
        section[:_HEAD] = np.array([scale], "<f4").view(np.uint8)
        return section[: _HEAD + three_lc.shorten_runs(codes, count, section[_HEAD:])]

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return _HEAD + -(-r // TERNARY_DIGITS)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode bytes to digits, times the scale rounded to ``dtype``."""
        from wirecodec.kernels.cpu.value import three_lc

        if section.size < _HEAD:
            raise Malformed("3lc-length", f"{section.size} bytes; the scale alone takes {_HEAD}")
        scale = read_scale(section[:_HEAD], "<f4", max_float32(dtype), "3lc-scale")
        count = -(-r // three_lc.DIGITS)
        codes = np.empty(count + three_lc.WRITE_MARGIN, np.uint8)
        bad = three_lc.expand_runs(np.ascontiguousarray(section[_HEAD:]), count, codes)
        if bad == three_lc.BAD_COUNT:
            raise Malformed("3lc-count", f"the bytes do not expand to {count}, which {r} values need")
        if bad == three_lc.BAD_RUN:
            raise Malformed("3lc-run", "a run follows a run that is not the longest")
        plus, minus = sign_words(from_float32(scale, dtype))
        out = np.empty(r, plus.dtype)
        if three_lc.dequantise(codes, plus.dtype.type(0), plus, minus, out) == three_lc.BAD_DIGIT:
            raise Malformed("3lc-padding", "a digit after the last value is not 1")
        return out.view(dtype)
