"""Sums of 16-bit gradients and float32 residuals, with their rounding to 16 bits in the same pass.

``AccumulatedGradient`` has the plain form, which widens, adds, clamps and rounds in passes of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array, aligned, bits_of, read_only
from wirecodec.cpu.fast.stream import MIN_STREAMED
from wirecodec.cpu.fast.terms import can_select_together
from wirecodec.element_types import BFLOAT16
from wirecodec.select.base import Selection
from wirecodec.settings.scheme import Scheme

MIN_ELEMENTS_PER_THREAD = 2**18
"""Elements that justify another thread; a multiple of 64, so that parts begin at whole cache lines."""


def select_rounded(scheme: Scheme, gradient: Array, residual: Array, out: Array) -> Selection | None:
    """Add a residual to a 16-bit gradient and select from the rounded sum in one pass.

    Args:
        scheme: its selector selects.
        gradient, residual: (n,) any element types.
        out: (n,) in the type of the sum, aligned to 64 bytes; receives the sum.

    Returns None, with undefined contents of ``out``, if it cannot.
    """
    if not _takes(gradient, residual):
        return None
    if not can_select_together(scheme) or not scheme.select.takes_joint(gradient.size):
        return None
    return scheme.select.select_rounded(gradient, residual, out)


def add_rounded(gradient: Array, residual: Array, out: Array) -> Array | None:
    """Store gradient + residual, and return the sums in the gradient's type, clamped to its finite numbers.

    Args:
        gradient: (n,) any element type.
        residual: (n,) any element type.
        out: (n,) in the type of the sum.

    Returns None, with undefined contents of ``out``, if the types are others, or if a sum is not finite.
    """
    if not _takes(gradient, residual):
        return None
    from wirecodec.kernels.cpu.select import rounded_sums

    add = rounded_sums.add[_form(gradient.dtype, rounded_sums)]
    rounded = aligned(gradient.size, gradient.dtype)
    given = read_only(bits_of(gradient)), read_only(bits_of(residual)), bits_of(out), bits_of(rounded)
    streamed = out.nbytes >= MIN_STREAMED and out.__array_interface__["data"][0] % 64 == 0

    def run(start: int, stop: int) -> bool:
        return bool(add(*(array[start:stop] for array in given), streamed))

    return rounded if _all_parts(run, gradient.size) else None


def round_sums(sums: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return float32 sums clamped and rounded to a 16-bit type, or None if one is not finite."""
    if sums.dtype != np.float32 or dtype.itemsize != 2 or not sums.flags.c_contiguous:
        return None
    from wirecodec.kernels.cpu.select import rounded_sums

    convert = rounded_sums.round_all[_form(dtype, rounded_sums)]
    rounded = np.empty(sums.size, dtype)
    bits, out = read_only(bits_of(sums)), bits_of(rounded)

    def run(start: int, stop: int) -> bool:
        return bool(convert(bits[start:stop], out[start:stop]))

    return rounded if _all_parts(run, sums.size) else None


def _takes(gradient: Array, residual: Array) -> bool:
    """Tell whether kernels have the types of a gradient and a residual."""
    return gradient.dtype.itemsize == 2 and residual.dtype == np.float32


def _form(dtype: np.dtype[Any], kernels: Any) -> int:
    """Return the form of the kernels for a 16-bit type."""
    return int(kernels.BFLOAT16 if dtype == BFLOAT16 else kernels.HALF)


def _all_parts(run: Any, size: int) -> bool:
    """Tell whether ``run`` returns True for all parts; parts begin at multiples of 64 elements."""
    from wirecodec.kernels.cpu.threads import map_ranges

    lines = -(-size // 64)
    parts = map_ranges(
        lambda first, last: run(64 * first, min(64 * last, size)), lines, MIN_ELEMENTS_PER_THREAD // 64
    )
    return all(parts)
