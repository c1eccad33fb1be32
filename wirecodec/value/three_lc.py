"""``3lc``: -1, 0 or 1 times a scale, five values a byte, runs of zeros shortened (formats/spec/value/3lc.md).

After Lim et al., 3LC (2019): 3-value quantisation with sparsity multiplication, quartic encoding, zero-run
encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.layout import TERNARY_DIGITS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, settle
from wirecodec.value.float32_convert import LARGEST, as_single, from_single, largest_single

__all__ = ["ThreeLC"]

_HEAD = 4


@dataclass(frozen=True)
class ThreeLC:
    """Three levels; zeros cost next to nothing.

    Args:
        sparsity: the scale over the greatest magnitude, from 1 to less than 2; more makes more values zero.
    """

    name: ClassVar[str] = "3lc"
    wire_id: ClassVar[int] = 12
    carries_nonfinite: ClassVar[bool] = False
    sparsity: float = 1.0

    def __post_init__(self) -> None:
        settle(self, sparsity=as_real(self.sparsity, "3lc: sparsity"))
        if not 1 <= self.sparsity < 2:
            raise EncodeError(f"3lc: sparsity is {self.sparsity}; it must be from 1 to less than 2")

    def encode(self, values: Array, stream: int) -> Bytes:
        """The greatest magnitude, digits, runs: two passes over values, one over a fifth as many bytes."""
        from wirecodec.kernels.cpu.value import three_lc

        bits = bits_of(as_single(values, self.name))
        top = np.array([three_lc.top_key(bits)], np.uint32).view(np.float32)[0]
        scale = np.float32(min(float(top) * self.sparsity, LARGEST[values.dtype.name]))
        least = max(bits_of(np.array([scale * np.float32(0.5)]))[0], np.uint32(1))
        count = -(-bits.size // three_lc.DIGITS)
        codes = np.empty(count + three_lc.SLACK, np.uint8)
        three_lc.quantise(bits, least, codes)
        section = np.empty(_HEAD + codes.size, np.uint8)
        section[:_HEAD] = np.array([scale], "<f4").view(np.uint8)
        return section[: _HEAD + three_lc.shorten(codes, count, section[_HEAD:])]

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return _HEAD + -(-r // TERNARY_DIGITS)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Bytes without runs, then the scale, rounded to ``dtype``, by their digits."""
        from wirecodec.kernels.cpu.value import three_lc

        if section.size < _HEAD:
            raise Malformed("3lc-length", f"{section.size} bytes; the scale takes {_HEAD}")
        scale = section[:_HEAD].view("<f4")
        if not scale[0] <= largest_single(dtype) or np.signbit(scale[0]):
            raise Invalid("3lc-scale", f"the scale is {scale[0]}")
        count = -(-r // three_lc.DIGITS)
        codes = np.empty(count + three_lc.SLACK, np.uint8)
        bad = three_lc.lengthen(np.ascontiguousarray(section[_HEAD:]), count, codes)
        if bad == three_lc.BAD_COUNT:
            raise Malformed("3lc-count", f"the bytes do not stand for {count}, which {r} values take")
        if bad == three_lc.BAD_RUN:
            raise Malformed("3lc-run", "two runs in a row, and the first is not the longest")
        plus = bits_of(from_single(scale, dtype))[0]
        minus = plus | plus.dtype.type(1 << (8 * plus.itemsize - 1))
        out = np.empty(r, plus.dtype)
        if three_lc.expand(codes, plus.dtype.type(0), plus, minus, out) == three_lc.BAD_DIGIT:
            raise Malformed("3lc-padding", "a digit after the last value is not the neutral one")
        return out.view(dtype)
