"""Bound on the sections of ``rice.cu`` and ``elias_fano.cu``, which share ``spans.cuh``."""

from __future__ import annotations

from typing import Any

__all__ = ["max_bits"]


def max_bits(r: int, d: int, more: int, count: Any) -> int:
    """Return the maximum number of bits of r indices below d: the bits of ⌊d/r⌋ and ``more`` per index.

    With a ``count``, r is only an upper bound. Half as many indices take at most one bit more each, so one
    more bit per index covers every count.
    """
    r = min(r, d)
    return r * ((d // r).bit_length() + more + (count is not None))
