"""What every threshold has in common: its bits, how many elements reach it, and which.

Magnitudes are compared as integers, the bits of a float without its sign, so the comparison itself is exact
and the same everywhere. NaN and the infinities are looked for in the same read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, Array, bits_of, read_only
from wirecodec.select.base import Selection, require_finite
from wirecodec.sparse import index_dtype

__all__ = [
    "collect_indices",
    "count_three",
    "grow",
    "round_threshold",
    "select_all",
    "select_by_threshold",
    "widen",
]


def widen(x: Array) -> Array:
    """Flat ``x`` in a type that kernels do arithmetic in: 16-bit types become float32, exactly."""
    return read_only(x.astype(np.float32)) if x.dtype.itemsize == 2 else x


def round_threshold(threshold: float, dtype: np.dtype[Any]) -> Any:
    """The bits that a magnitude of this type must reach, as a NumPy scalar.

    The threshold is rounded to the type, to nearest, ties to even. It is never below the least magnitude that
    is not 0, so zeros never reach it; a threshold beyond the type's range is infinity.
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
    """How many elements reach each of three thresholds, given as bits of the type of ``x``: one read."""
    from wirecodec.kernels.cpu.select import threshold

    bits = bits_of(x)
    return threshold.count_three(bits, _sign_bit(bits), low, middle, high)


def collect_indices(x: Array, least: Any, what: str, expected: int = 0) -> Array:
    """The ascending indices of the elements that reach ``least``: one read.

    EncodeError names the first NaN or Inf, which ``what`` cannot carry. A good guess of how many there are
    saves copies.
    """
    from wirecodec.kernels.cpu.select import threshold

    bits = bits_of(x)
    found = np.empty(min(expected + expected // 8 + 1024, x.size) + threshold.SLACK, index_dtype(x.size))
    infinity = bits_of(np.array([np.inf], x.dtype))[0]
    at, count, finite = threshold.fill_at_least(bits, _sign_bit(bits), least, infinity, 0, found, 0)
    while finite and at < x.size:
        share = count / max(at, 1)
        room = min(x.size, count + int(1.1 * share * (x.size - at)) + 4096) + threshold.SLACK
        found = grow(found, count, room)
        at, count, finite = threshold.fill_at_least(bits, _sign_bit(bits), least, infinity, at, found, count)
    if not finite:
        require_finite(x, what)
    return found[:count] if 2 * count > found.size else found[:count].copy()


def grow(found: Array, count: int, room: int) -> Array:
    """A new array of ``room`` elements that begins with the first ``count`` of another."""
    larger = np.empty(room, found.dtype)
    larger[:count] = found[:count]
    return larger


def select_by_threshold(x: Array, threshold: float, what: str, expected: int) -> Selection:
    """The elements that reach a fitted threshold; EncodeError names the first NaN or Inf."""
    found = collect_indices(x, round_threshold(threshold, x.dtype), what, expected)
    return Selection(None if found.size == x.size else found)


def select_all(x: Array, what: str) -> Selection:
    """Every element; EncodeError names the first NaN or Inf."""
    require_finite(x, what)
    return Selection(None)
