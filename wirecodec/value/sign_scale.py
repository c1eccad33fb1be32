"""``sign-scale``: one bit a value, its sign, and one magnitude for all (formats/spec/value/sign-scale.md).

As in signSGD with error feedback (Karimireddy et al., 2019); with values that share a magnitude already, as
those of ``adacomp``, nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.raw import widened
from wirecodec.value.scale import LARGEST, rounded, scale_type

__all__ = ["SignScale"]

_SHRINK = 2.0**-64


@dataclass(frozen=True)
class SignScale:
    """sign(v) times the mean magnitude; a zero counts as positive."""

    name: ClassVar[str] = "sign-scale"
    wire_id: ClassVar[int] = 5
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: int) -> Bytes:
        """The scale and the signs: one pass over the values."""
        from wirecodec.kernels.cpu.value import sign_scale

        head = scale_type(values.dtype).itemsize
        section = np.zeros(head + -(-values.size // 8), np.uint8)
        wide = widened(values)
        bits = bits_of(wide)
        total, alike = sign_scale.sum_and_signs(wide, bits, _minus_zero(bits), section[head:])
        if not alike and total == np.inf:  # float64: small enough to be summed, then taken back
            less = wide * _SHRINK
            total = sign_scale.sum_and_signs(less, bits_of(less), _minus_zero(bits), np.zeros_like(section))[
                0
            ]
            scale = total / wide.size / _SHRINK
        else:
            scale = abs(wide[0]) if alike else total / wide.size
        section[:head] = np.array([scale], scale_type(values.dtype)).view(np.uint8)
        return section

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return scale_type(dtype).itemsize + -(-r // 8)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The scale, rounded to ``dtype``, with the signs."""
        from wirecodec.kernels.cpu.value import sign_scale

        zero, one, signs = cls.opened(section, r, dtype)
        out = np.empty(r, zero.dtype)
        sign_scale.expand(np.ascontiguousarray(signs), zero, one, out)
        return out.view(dtype)

    @classmethod
    def opened(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[Any, Any, Bytes]:
        """The words of plus and of minus the scale, and the signs' bytes; all checks are made."""
        head = scale_type(dtype).itemsize
        if section.size != head + -(-r // 8):
            raise Malformed("sign-scale-length", f"{section.size} bytes for {r} values")
        scale = section[:head].view(scale_type(dtype))
        if not scale[0] <= LARGEST[dtype.name] or np.signbit(scale[0]):
            raise Invalid("sign-scale-scale", f"the scale is {scale[0]}")
        if r % 8 and section[-1] >> r % 8:
            raise Malformed("sign-scale-padding", "a bit after the last sign is set")
        zero = bits_of(rounded(scale, dtype))[0]
        one = zero | zero.dtype.type(1 << (8 * zero.itemsize - 1))
        return zero, one, section[head:]


def _minus_zero(bits: Array) -> Any:
    return bits.dtype.type(1 << (8 * bits.itemsize - 1))
