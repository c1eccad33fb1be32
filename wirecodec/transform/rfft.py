"""``rfft``: the tensor's frequencies (Wang et al., FFT-based gradient sparsification, 2020, section 3.1.1).

Bin k is a complex number, the k-th cosine and sine of the tensor; it is stored under one index, as two
values. Bins are scaled so that the squared magnitudes add up to those of the elements: all but bin 0, and but
the last one of an even length, stand for two bins of the whole spectrum, and weigh √2. So a selector that
keeps the largest magnitudes keeps most energy; the paper's |c|² differs from that in these two bins only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.transform.base import round_coefficients, round_elements, smooth_length

__all__ = ["RFFT"]


@dataclass(frozen=True)
class RFFT:
    """The real discrete Fourier transform; ⌊m/2⌋ + 1 complex bins of a tensor filled up to m elements."""

    name: ClassVar[str] = "rfft"
    domain: ClassVar[int] = 1
    width: ClassVar[int] = 2

    @classmethod
    def count(cls, size: int) -> int:
        """How many bins a tensor of ``size`` elements has; none without elements."""
        return smooth_length(size) // 2 + 1 if size else 0

    @classmethod
    def forward(cls, x: Array) -> Array:
        """The bins of flat, finite ``x``: complex64, or complex128 of float64."""
        from scipy import fft

        if not x.size:
            return round_coefficients(np.empty(0, np.complex128), x.dtype, cls.name)
        length = smooth_length(x.size)
        bins: Array = fft.rfft(x.astype(np.float64), length, norm="ortho")
        with np.errstate(all="ignore"):  # what is beyond all range is refused next
            bins[_paired_bins(length)] *= math.sqrt(2)
        return round_coefficients(bins, x.dtype, cls.name)

    @classmethod
    def inverse(cls, coefficients: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """The elements; imaginary parts of bins that are real by their nature are not looked at."""
        from scipy import fft

        if not size:
            return np.empty(0, dtype)
        length = smooth_length(size)
        bins = coefficients.astype(np.complex128)
        bins[_paired_bins(length)] *= math.sqrt(0.5)
        return round_elements(fft.irfft(bins, length, norm="ortho", overwrite_x=True), size, dtype)


def _paired_bins(length: int) -> slice:
    """The bins that stand for two: all but 0, and but length / 2."""
    return slice(1, (length + 1) // 2)
