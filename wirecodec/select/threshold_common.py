"""Operations that all threshold selectors share.

Magnitudes are compared as integers, the bits of a float without its sign. The comparison is exact and the
same on every machine. The same read checks for NaN and Inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype, read_only
from wirecodec.element_types import BFLOAT16
from wirecodec.select.base import Selection, require_finite


def widen(x: Array) -> Array:
    """Convert flat ``x`` to a type that kernels compute in: 16-bit types become float32, exactly."""
    return read_only(x.astype(np.float32)) if x.dtype.itemsize == 2 else x


def round_threshold(threshold: float, dtype: np.dtype[Any]) -> Any:
    """Return the bits that a magnitude of this type must reach, as a NumPy scalar.

    The threshold is rounded to the type, to nearest with ties to even. The result is at least the smallest
    magnitude above 0, so zeros never reach it. A threshold beyond the type's range becomes infinity.
    """
    if dtype == BFLOAT16:
        from wirecodec.kernels.cpu.coding import narrow

        word = np.empty(1, np.uint16)
        narrow.bfloat16_from_f64(np.array([threshold], np.float64).view(np.uint64), word)
    else:
        with np.errstate(over="ignore", under="ignore"):
            word = bits_of(np.array([threshold]).astype(dtype))
    least = word.dtype.type(1)
    return word[0] if threshold > 0 and word[0] else least


def _sign_bit(bits: Array) -> Any:
    return bits.dtype.type(1 << (8 * bits.itemsize - 1))


def count_three(x: Array, low: Any, middle: Any, high: Any) -> tuple[int, int, int]:
    """Count the elements that reach each of three thresholds, given as bits of x's type; one read."""
    from wirecodec.kernels.cpu.select import threshold

    bits = bits_of(x)
    return threshold.count_three(bits, _sign_bit(bits), low, middle, high)


def collect_indices(x: Array, least: Any, what: str, expected: int = 0) -> Array:
    """Return the ascending indices of the elements that reach ``least``; one read.

    Args:
        x: (n,) any element type.
        least: bits of a magnitude, of x's unsigned type.
        what: the selector, for the message.
        expected: a guess of the number of indices; a good one saves copies.

    Raises EncodeError at the first NaN or Inf.
    """
    from wirecodec.kernels.cpu.select import threshold

    bits = bits_of(x)
    indices = np.empty(min(expected + expected // 8 + 1024, x.size) + threshold.SLACK, index_dtype(x.size))
    infinity = bits_of(np.array([np.inf], x.dtype))[0]
    at, count, finite = threshold.fill_at_least(bits, _sign_bit(bits), least, infinity, 0, indices, 0)
    while finite and at < x.size:
        fraction = count / max(at, 1)
        size = min(x.size, count + int(1.1 * fraction * (x.size - at)) + 4096) + threshold.SLACK
        indices = grow(indices, count, size)
        at, count, finite = threshold.fill_at_least(
            bits, _sign_bit(bits), least, infinity, at, indices, count
        )
    if not finite:
        require_finite(x, what)
    return indices[:count] if 2 * count > indices.size else indices[:count].copy()


def grow(array: Array, count: int, size: int) -> Array:
    """Return an array of ``size`` elements that begins with the first ``count`` of another."""
    larger = np.empty(size, array.dtype)
    larger[:count] = array[:count]
    return larger


def select_by_threshold(x: Array, threshold: float, what: str, expected: int) -> Selection:
    """Select the elements that reach a threshold.

    Args:
        x: (n,) any element type.
        threshold: in the unit of x.
        what: the selector, for the message.
        expected: a guess of the number of elements.

    Raises EncodeError at the first NaN or Inf.
    """
    indices = collect_indices(x, round_threshold(threshold, x.dtype), what, expected)
    return Selection(None if indices.size == x.size else indices)


def select_all(x: Array, what: str) -> Selection:
    """Select every element; raise EncodeError at the first NaN or Inf."""
    require_finite(x, what)
    return Selection(None)
