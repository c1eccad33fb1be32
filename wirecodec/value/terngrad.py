"""``terngrad``: stochastic quantisation to three levels (formats/spec/value/terngrad.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.layout import TERNARY_DIGITS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.float32_convert import from_float32, max_float32, to_float32
from wirecodec.value.scale import read_scale, sign_words

_HEAD = 4
_MIN_SCALE = 2.0**-100


@dataclass(frozen=True)
class TernGrad(ValueCodec):
    """Ternary gradient (TernGrad) value codec.

    A value is sent as its sign times the scale with probability |v|/scale, and as zero otherwise. It takes
    1.6 bits per value and 4 bytes per chunk. Unbiased up to 2^-17 of the scale if ``clip`` is None. If values
    differ much in size, the error exceeds their norm, so error feedback diverges. Draws are hashes of a
    counter, so the same seed gives the same bytes on every backend.

    Source: Wen et al., *TernGrad*, 2017; formats/spec/value/terngrad.md.

    Args:
        clip: None if the scale is the largest magnitude; or c, which limits the scale to c times the root
            mean square. Clipping reduces noise and biases larger values. Wen et al. use 2.5.

    Raises:
        EncodeError: if ``clip`` is out of range; on encoding, if a float64 value is too large for float32.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([3.0, -3.0, 0.0, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | terngrad", seed=0)).values
        array([ 3., -3.,  0.,  3.], dtype=float32)
    """

    name: ClassVar[str] = "terngrad"
    wire_id: ClassVar[int] = 11
    carries_nonfinite: ClassVar[bool] = False
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is None:
            return
        clip = as_real(self.clip, "terngrad: clip")
        if not 0 < clip < math.inf:
            raise EncodeError(f"terngrad: clip is {clip!r}; it must be above 0 and finite, or None")
        set_fields(self, clip=clip)

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode the scale, then five digits per byte, in two passes; ``clip`` adds one."""
        from wirecodec.kernels.cpu.value import terngrad

        x = to_float32(values, self.name)
        scale = self._scale(x)
        section = np.empty(_HEAD + -(-x.size // TERNARY_DIGITS), np.uint8)
        section[:_HEAD] = scale.view(np.uint8)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        terngrad.encode(bits_of(x), bits_of(scale)[0], low, high, section[_HEAD:])
        return section

    def _scale(self, x: Array) -> Array:
        """Compute the scale, (1,) float32: 0, or at least 2^-100."""
        from wirecodec.kernels.cpu.value import terngrad

        scale = terngrad.max_magnitude(bits_of(x))
        if self.clip is not None:
            scale = min(scale, self.clip * math.sqrt(terngrad.sum_of_squares(x) / x.size))
        single = np.array([scale], np.float32)
        return single if single[0] >= _MIN_SCALE else np.zeros(1, np.float32)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return _HEAD + -(-r // TERNARY_DIGITS)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode digits to signs times the scale, rounded to ``dtype``."""
        from wirecodec.kernels.cpu.coding import base3

        if section.size != _HEAD + -(-r // TERNARY_DIGITS):
            raise Malformed("terngrad-length", f"{section.size} bytes for {r} values")
        scale = read_scale(section[:_HEAD], "<f4", max_float32(dtype), "terngrad-scale")
        plus, minus = sign_words(from_float32(scale, dtype))
        out = np.empty(r, plus.dtype)
        fault = base3.expand(np.ascontiguousarray(section[_HEAD:]), minus, plus, out)
        if fault == base3.BAD_BYTE:
            raise Invalid("terngrad-byte", "a byte is above 242, the largest code of five digits")
        if fault == base3.BAD_PADDING:
            raise Malformed("terngrad-padding", "a digit after the last value is not 1")
        return out.view(dtype)
