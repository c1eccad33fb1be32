"""``terngrad``: minus, zero or plus one scale, at random (formats/spec/value/terngrad.md).

After Wen et al., TernGrad (2017). Unbiased up to 2^-17 of the scale where nothing is clipped; the draws are
counter hashes, so the same seed gives the same bytes everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.layout import TERNARY_DIGITS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, settle
from wirecodec.value.float32_convert import as_single, from_single, largest_single

__all__ = ["TernGrad"]

_HEAD = 4
_SMALLEST_SCALE = 2.0**-100


@dataclass(frozen=True)
class TernGrad:
    """Each value is sent as its sign times the scale, or as zero, so that its mean is the value.

    Args:
        clip: None, the scale is the largest magnitude; or c, it is no more than c times the root mean square:
            less noise, of which every larger value pays as a bias. Wen et al. take 2.5.
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
        settle(self, clip=clip)

    def encode(self, values: Array, stream: int) -> Bytes:
        """The scale, then five digits a byte: two passes over the values, three with ``clip``."""
        from wirecodec.kernels.cpu.value import terngrad

        x = as_single(values, self.name)
        scale = self._scale(x)
        section = np.empty(_HEAD + -(-x.size // TERNARY_DIGITS), np.uint8)
        section[:_HEAD] = scale.view(np.uint8)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        terngrad.encode(bits_of(x), bits_of(scale)[0], low, high, section[_HEAD:])
        return section

    def _scale(self, x: Array) -> Array:
        """(1,) float32: 0, or 2^-100 and more."""
        from wirecodec.kernels.cpu.value import terngrad

        scale = terngrad.largest(bits_of(x))
        if self.clip is not None:
            scale = min(scale, self.clip * math.sqrt(terngrad.sum_of_squares(x) / x.size))
        single = np.array([scale], np.float32)
        return single if single[0] >= _SMALLEST_SCALE else np.zeros(1, np.float32)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return _HEAD + -(-r // TERNARY_DIGITS)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The scale, rounded to ``dtype``, with the signs that are not 0."""
        from wirecodec.kernels.cpu.coding import base3

        if section.size != _HEAD + -(-r // TERNARY_DIGITS):
            raise Malformed("terngrad-length", f"{section.size} bytes for {r} values")
        scale = section[:_HEAD].view("<f4")
        if not scale[0] <= largest_single(dtype) or np.signbit(scale[0]):
            raise Invalid("terngrad-scale", f"the scale is {scale[0]}")
        plus = bits_of(from_single(scale, dtype))[0]
        minus = plus | plus.dtype.type(1 << (8 * plus.itemsize - 1))
        out = np.empty(r, plus.dtype)
        found = base3.expand(np.ascontiguousarray(section[_HEAD:]), minus, plus, out)
        if found == base3.BAD_BYTE:
            raise Invalid("terngrad-byte", "a byte above 242 holds no five digits")
        if found == base3.BAD_PADDING:
            raise Malformed("terngrad-padding", "a digit after the last is not 1")
        return out.view(dtype)
