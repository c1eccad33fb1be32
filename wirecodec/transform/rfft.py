"""``rfft``: discrete Fourier transform of real tensors (formats/spec/transform/rfft.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.transform.base import round_coefficients, round_elements, smooth_length
from wirecodec.validation import import_scipy, import_scipy_to_decode


@dataclass(frozen=True)
class RFFT:
    """Real discrete Fourier transform.

    A tensor padded with zeros to m elements has ⌊m/2⌋ + 1 complex bins. A bin has one index and two values.
    Bins that represent two frequencies of the full spectrum are scaled by √2, so the transform is orthogonal.
    Selecting the largest magnitudes then keeps the most energy. The paper's |c|² differs only in bin 0 and,
    for even m, in the last bin.

    The paper rounds the gradient to float16 first, for the throughput of its GPU. Here sums are float64, so
    that step would only add its error of 2^-11; pass a float16 tensor to have it.

    Source: Wang et al., *FFT-based Gradient Sparsification*, 2020, section 3.1.1;
    formats/spec/transform/rfft.md.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.codecs.RFFT.inverse(wc.codecs.RFFT.forward(x), 4, x.dtype)
        array([ 1. , -2. ,  0.5,  3. ], dtype=float32)
    """

    name: ClassVar[str] = "rfft"
    domain: ClassVar[int] = 1
    width: ClassVar[int] = 2

    @classmethod
    def count(cls, size: int) -> int:
        """Return the number of bins of a tensor of ``size`` elements."""
        return smooth_length(size) // 2 + 1 if size else 0

    @classmethod
    def forward(cls, x: Array) -> Array:
        """Transform flat, finite ``x``; bins are complex64, or complex128 for float64."""
        if not x.size:
            return round_coefficients(np.empty(0, np.complex128), x.dtype, cls.name)
        fft = import_scipy("fft", cls.name)
        length = smooth_length(x.size)
        bins: Array = fft.rfft(x.astype(np.float64), length, norm="ortho")
        with np.errstate(all="ignore"):  # round_coefficients checks the range
            bins[_paired_bins(length)] *= math.sqrt(2)
        return round_coefficients(bins, x.dtype, cls.name)

    @classmethod
    def inverse(cls, coefficients: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """Transform bins back to ``size`` elements, ignoring the imaginary parts of real bins."""
        if not size:
            return np.empty(0, dtype)
        fft = import_scipy_to_decode("fft", cls.name)
        length = smooth_length(size)
        bins = coefficients.astype(np.complex128)
        bins[_paired_bins(length)] *= math.sqrt(0.5)
        return round_elements(fft.irfft(bins, length, norm="ortho", overwrite_x=True), size, dtype)


def _paired_bins(length: int) -> slice:
    """Return the bins that represent two frequencies: all but 0 and length / 2."""
    return slice(1, (length + 1) // 2)
