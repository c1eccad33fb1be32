"""What a transform is, and what both have in common (formats/SPEC.md, 3.5).

Both are orthogonal: the squares of the coefficients add up to those of the elements, so what is lost of the
coefficients is what is lost of the tensor. A tensor is filled up with zeros to a length without large prime
factors, for which every library has a fast and accurate transform of n log n steps. Sums are in float64,
whatever the tensor's type; coefficients are rounded once, and so are the elements that come back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import ml_dtypes
import numpy as np

from wirecodec.arrays import BFLOAT16, Array, bits_of
from wirecodec.errors import EncodeError

__all__ = [
    "Transform",
    "coefficient_type",
    "is_in_range",
    "round_coefficients",
    "round_elements",
    "smooth_length",
]

_MAX_COEFFICIENT = 2.0**1000
"""Of a coefficient: sums of float64 coefficients stay finite."""


@runtime_checkable
class Transform(Protocol):
    """A frozen dataclass whose fields are its parameters.

    Attributes:
        name: what schemes call it.
        domain: marks the entries that hold its coefficients (formats/SPEC.md, 2.2).
        width: numbers of one coefficient; 2 where it is complex.
    """

    name: ClassVar[str]
    domain: ClassVar[int]
    width: ClassVar[int]

    @classmethod
    def count(cls, size: int) -> int:
        """How many coefficients a tensor of ``size`` elements has."""
        ...

    @classmethod
    def forward(cls, x: Array) -> Array:
        """The coefficients of flat, finite ``x``; EncodeError where they are beyond their type's range."""
        ...

    @classmethod
    def inverse(cls, coefficients: Array, size: int, dtype: np.dtype[Any]) -> Array:
        """The ``size`` elements that all coefficients, each in range, stand for; finite."""
        ...


@lru_cache(maxsize=1024)
def smooth_length(size: int) -> int:
    """The least number from ``size`` on that 2, 3 and 5 alone divide; 0 for 0."""
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
    """The type of the numbers in the coefficients of such a tensor: float32, or float64 of float64."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def is_in_range(numbers: Array) -> bool:
    """Whether every number is finite, and at most 2^1000 in magnitude."""
    if not numbers.size:
        return True
    with np.errstate(invalid="ignore"):
        return float(numbers.max()) <= _MAX_COEFFICIENT and float(numbers.min()) >= -_MAX_COEFFICIENT


def round_coefficients(coefficients: Array, dtype: np.dtype[Any], what: str) -> Array:
    """float64 or complex128 coefficients of a tensor of this type, in the type they are stored in.

    EncodeError where one is out of its range.
    """
    numbers, kind = coefficients.view(np.float64), coefficient_type(dtype)
    with np.errstate(over="ignore", under="ignore"):
        stored = numbers.astype(kind, copy=False)
    if not is_in_range(stored):
        raise EncodeError(f"the elements are too large for {what}: a coefficient is beyond {kind}")
    return stored if coefficients.dtype == np.float64 else stored.view(np.dtype(f"c{2 * kind.itemsize}"))


def round_elements(sums: Array, size: int, dtype: np.dtype[Any]) -> Array:
    """The first ``size`` of float64 ``sums`` as elements: rounded once, cut to the type's finite range."""
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
