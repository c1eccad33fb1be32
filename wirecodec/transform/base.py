"""Protocol of transforms, and their common parts (formats/SPEC.md, 3.5).

Both transforms are orthogonal, so the squared error of the coefficients is the squared error of the tensor. A
tensor is padded with zeros to a length without large prime factors, for which every library has a fast and
accurate transform of n log n steps. Sums are float64 for every element type. Coefficients and decoded
elements are rounded once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import ml_dtypes
import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import EncodeError

_MAX_COEFFICIENT = 2.0**1000
"""Largest magnitude of a coefficient; sums of float64 coefficients then stay finite."""


@runtime_checkable
class Transform(Protocol):
    """Protocol of transforms: a frozen dataclass whose fields are the transform's parameters.

    Attributes:
        name: name in scheme strings.
        domain: marks the entries that hold its coefficients (formats/SPEC.md, 2.2).
        width: real numbers per coefficient; 2 if coefficients are complex.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.codecs.DCT(), wc.codecs.Transform)
        True
    """

    name: ClassVar[str]
    domain: ClassVar[int]
    width: ClassVar[int]

    @classmethod
    def count(cls, size: int) -> int:
        """Return the number of coefficients of a tensor of ``size`` elements."""
        ...

    @classmethod
    def forward(cls, x: Array) -> Array:
        """Transform a tensor.

        Args:
            x: (n,) array of an element type, finite.

        Returns:
            (count(n),) coefficients, float32 or complex64; float64 or complex128 if ``x`` is float64.

        Raises:
            EncodeError: if a coefficient is out of its type's range.
        """
        ...

    @classmethod
    def inverse(cls, coefficients: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """Transform coefficients back.

        Args:
            coefficients: (count(size),) all coefficients, each in range.
            size: number of elements.
            dtype: element type of the result.

        Returns:
            (size,) finite array of type ``dtype``.
        """
        ...


@lru_cache(maxsize=1024)
def smooth_length(size: int) -> int:
    """Find the smallest number from ``size`` on whose only prime factors are 2, 3 and 5; return 0 for 0."""
    if size <= 1:
        return size
    least = 1 << (size - 1).bit_length()
    fives = 1
    while fives < least:
        odd = fives
        while odd < least:
            least = min(least, odd << (-(-size // odd) - 1).bit_length())
            odd *= 3
        fives *= 5
    return least


def coefficient_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the real type of coefficients: float64 for float64 tensors, float32 for all others."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def is_in_range(numbers: Array) -> bool:
    """Check that every number is finite and at most 2^1000 in magnitude."""
    if not numbers.size:
        return True
    with np.errstate(invalid="ignore"):
        return float(numbers.max()) <= _MAX_COEFFICIENT and float(numbers.min()) >= -_MAX_COEFFICIENT


def round_coefficients(coefficients: Array, dtype: np.dtype[Any], what: str) -> Array:
    """Round coefficients to the type in which they are stored.

    Args:
        coefficients: float64 or complex128.
        dtype: element type of the tensor.
        what: name of the transform, used in the error message.

    Raises:
        EncodeError: if a coefficient is out of range.
    """
    numbers, kind = coefficients.view(np.float64), coefficient_type(dtype)
    with np.errstate(over="ignore", under="ignore"):
        stored = numbers.astype(kind, copy=False)
    if not is_in_range(stored):
        raise EncodeError(f"the elements are too large for {what}: a coefficient is beyond {kind}")
    return stored if coefficients.dtype == np.float64 else stored.view(np.dtype(f"c{2 * kind.itemsize}"))


def round_elements(sums: Array, size: int, dtype: np.dtype[Any]) -> Array:
    """Round the first ``size`` of float64 ``sums`` once to elements, clamped to the type's finite range."""
    kept = sums[:size]
    if dtype == np.float64:
        return kept if kept.size == sums.size else kept.copy()
    largest = float(ml_dtypes.finfo(dtype).max)
    np.clip(kept, -largest, largest, out=kept)
    if dtype != BFLOAT16:
        with np.errstate(under="ignore"):
            return kept.astype(dtype)
    from wirecodec.kernels.cpu.coding import narrow

    words = np.empty(size, np.uint16)
    narrow.bfloat16_from_f64(bits_of(kept), words)
    return words.view(BFLOAT16)
