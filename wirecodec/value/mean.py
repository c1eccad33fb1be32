"""``mean``: one number for all values (formats/spec/value/mean.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.base import ValueCodec
from wirecodec.value.raw import widen
from wirecodec.value.scale import max_scale, round_scale, scale_type

_SHRINK = 2.0**-64


@dataclass(frozen=True)
class Mean(ValueCodec):
    """Mean value codec: every value becomes the chunk's mean.

    It takes 4 bytes per chunk (8 for float64) and 0 bits per value, so a container effectively stores a set
    of indices: a mask, a vote, or the indices of CLT-k's leader. Equal values are preserved. Other values are
    not unbiased, and error feedback does not converge. Source: formats/spec/value/mean.md.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | mean")).values
        array([0.625, 0.625, 0.625, 0.625], dtype=float32)
    """

    name: ClassVar[str] = "mean"
    wire_id: ClassVar[int] = 15
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode the mean, in two passes over the values."""
        from wirecodec.kernels.cpu.value import mean

        wide = widen(values)
        bits = bits_of(wide)
        if (bits == bits[0]).all():
            number = wide[0]
        else:
            total = mean.sum_values(wide)
            with np.errstate(over="ignore"):
                number = total / wide.size
            if not np.isfinite(number):  # a float64 sum overflowed: scale down, sum, scale back
                number = mean.sum_values(wide * _SHRINK) / wide.size / _SHRINK
        return np.array([number], scale_type(values.dtype)).view(np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return scale_type(dtype).itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode r copies of the mean, rounded to ``dtype``."""
        kind = scale_type(dtype)
        if section.size != kind.itemsize:
            raise Malformed("mean-length", f"{section.size} bytes; the mean takes {kind.itemsize}")
        number = section.view(kind)
        if not abs(number[0]) <= max_scale(dtype):
            raise Invalid("mean-number", f"the mean is {number[0]}; it must be a finite {dtype}")
        return np.full(r, round_scale(number, dtype)[0])
