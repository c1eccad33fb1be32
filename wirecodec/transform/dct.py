"""``dct``: the tensor's cosine transform, of type II.

As many real coefficients as elements: each costs an index of its own, and says twice as much as one of the
two numbers of an ``rfft`` bin, whose other one has to be sent along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.transform.base import round_coefficients, round_elements, smooth_length

__all__ = ["DCT"]


@dataclass(frozen=True)
class DCT:
    """The orthonormal DCT-II of a tensor filled up with zeros to m elements; m real coefficients."""

    name: ClassVar[str] = "dct"
    domain: ClassVar[int] = 2
    width: ClassVar[int] = 1

    @classmethod
    def count(cls, size: int) -> int:
        """How many coefficients a tensor of ``size`` elements has."""
        return smooth_length(size)

    @classmethod
    def forward(cls, x: Array) -> Array:
        """The coefficients of flat, finite ``x``: float32, or float64 of float64."""
        from scipy import fft

        if not x.size:
            return round_coefficients(np.empty(0), x.dtype, cls.name)
        sums = fft.dct(x.astype(np.float64), n=smooth_length(x.size), norm="ortho", overwrite_x=True)
        return round_coefficients(sums, x.dtype, cls.name)

    @classmethod
    def inverse(cls, coefficients: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """The elements."""
        from scipy import fft

        if not size:
            return np.empty(0, dtype)
        sums = coefficients.astype(np.float64)
        return round_elements(fft.idct(sums, norm="ortho", overwrite_x=True), size, dtype)
