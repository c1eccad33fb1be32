"""``mean``: one number for all values (formats/spec/value/mean.md).

It costs next to nothing, so a container of it is a set of indices: masks, votes, CLT-k's choice. Values that
are alike come back as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.raw import widened
from wirecodec.value.scale import largest_scale, rounded, scale_type

__all__ = ["Mean"]

_SHRINK = 2.0**-64


@dataclass(frozen=True)
class Mean:
    """Every value becomes the mean of all."""

    name: ClassVar[str] = "mean"
    wire_id: ClassVar[int] = 15
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: int) -> Bytes:
        """The mean: two passes over the values."""
        from wirecodec.kernels.cpu.value import mean

        wide = widened(values)
        bits = bits_of(wide)
        if (bits == bits[0]).all():
            number = wide[0]
        else:
            total = mean.total(wide)
            with np.errstate(over="ignore"):
                number = total / wide.size
            if not np.isfinite(number):  # float64: small enough to be summed, then taken back
                number = mean.total(wide * _SHRINK) / wide.size / _SHRINK
        return np.array([number], scale_type(values.dtype)).view(np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return scale_type(dtype).itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The mean, rounded to ``dtype``, r times."""
        kind = scale_type(dtype)
        if section.size != kind.itemsize:
            raise Malformed("mean-length", f"{section.size} bytes; the mean takes {kind.itemsize}")
        number = section.view(kind)
        if not abs(number[0]) <= largest_scale(dtype):
            raise Invalid("mean-number", f"the mean is {number[0]}")
        return np.full(r, rounded(number, dtype)[0])
