"""``sign-scale``: one sign bit per value and one magnitude for all (formats/spec/value/sign-scale.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.base import ValueCodec
from wirecodec.value.raw import widen
from wirecodec.value.scale import max_scale, read_scale, round_scale, scale_type, sign_words

_SHRINK = 2.0**-64


@dataclass(frozen=True)
class SignScale(ValueCodec):
    """Sign and scale value codec: sign(v) times the mean magnitude.

    It takes 1 bit per value and 4 bytes per chunk (8 for float64). A zero becomes positive. Values of equal
    magnitude, such as those of ``adacomp``, are preserved. Contractive: ‖Q(v) - v‖² ≤ (1 - 1/r) ‖v‖², so
    error feedback converges. Not unbiased.

    Source: Karimireddy et al., *Error Feedback Fixes SignSGD*, 2019; formats/spec/value/sign-scale.md.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | sign-scale")).values
        array([ 1.625, -1.625,  1.625,  1.625], dtype=float32)
    """

    name: ClassVar[str] = "sign-scale"
    wire_id: ClassVar[int] = 5
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode the scale and the signs, in one pass over the values."""
        from wirecodec.kernels.cpu.value import sign_scale

        scale_bytes = scale_type(values.dtype).itemsize
        section = np.zeros(scale_bytes + -(-values.size // 8), np.uint8)
        wide = widen(values)
        bits = bits_of(wide)
        total, alike = sign_scale.sum_and_pack_signs(wide, bits, _minus_zero(bits), section[scale_bytes:])
        if not alike and total == np.inf:  # a float64 sum overflowed: scale down, sum, scale back
            less = wide * _SHRINK
            total = sign_scale.sum_and_pack_signs(
                less, bits_of(less), _minus_zero(bits), np.zeros_like(section)
            )[0]
            scale = total / wide.size / _SHRINK
        else:
            scale = abs(wide[0]) if alike else total / wide.size
        section[:scale_bytes] = np.array([scale], scale_type(values.dtype)).view(np.uint8)
        return section

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return scale_type(dtype).itemsize + -(-r // 8)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode the signs, times the scale rounded to ``dtype``."""
        from wirecodec.kernels.cpu.value import sign_scale

        zero, one, signs = cls.read_header(section, r, dtype)
        out = np.empty(r, zero.dtype)
        sign_scale.expand(np.ascontiguousarray(signs), zero, one, out)
        return out.view(dtype)

    @classmethod
    def read_header(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[Any, Any, Bytes]:
        """Validate a section.

        Returns:
            The bits of plus and of minus the scale in the element type, and the bytes of the signs.

        Raises:
            Malformed: if the length or the padding is wrong.
            Invalid: if the scale is negative or not a finite number of the element type.
        """
        scale_bytes = scale_type(dtype).itemsize
        if section.size != scale_bytes + -(-r // 8):
            raise Malformed("sign-scale-length", f"{section.size} bytes for {r} values")
        scale = read_scale(section[:scale_bytes], scale_type(dtype), max_scale(dtype), "sign-scale-scale")
        if r % 8 and section[-1] >> r % 8:
            raise Malformed("sign-scale-padding", "a bit after the last sign is set")
        return *sign_words(round_scale(scale, dtype)), section[scale_bytes:]


def _minus_zero(bits: Array) -> Any:
    """Return the sign bit of a type, given an array of its bits."""
    return bits.dtype.type(1 << (8 * bits.itemsize - 1))
