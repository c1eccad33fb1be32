"""Residuals that are left of the sums of many tensors, when the received values are known."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import prefetch, view_at
from wirecodec.kernels.cpu.threads import next_unit

PREFETCH_INDICES = 24


@kernel
def store_differences(
    values: Array,
    received: Array,
    indices: Array,
    cuts: Array,
    addresses: Array,
    sizes: Array,
    cleared: bool,
    like: Array,
    turns: Array,
) -> None:
    """Store rest[index] = value - received, or +0 if that is not finite, for the elements of many arrays.

    Args:
        values, indices: of all arrays, finite.
        received: (n,) i64, addresses of the values to subtract.
        cuts: (n + 1,) i64, the place of each array's elements.
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        cleared: whether the arrays have +0 at the indices.
        like: an array of their type.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = slice(cuts[unit], cuts[unit + 1])
        sent = view_at(received[unit], cuts[unit + 1] - cuts[unit], like)
        rest = view_at(addresses[unit], sizes[unit], like)
        _store_differences(values[here], sent, indices[here], rest, cleared)
        unit = next_unit(turns, unit)


@inline
def _store_differences(values: Array, sent: Array, indices: Array, rest: Array, cleared: bool) -> None:
    """Store values[i] - sent[i] at indices[i], or +0 if it is not finite, or -0."""
    last = indices.size - 1
    for i in range(indices.size):
        difference = values[i] - sent[i]
        stored = difference != 0 and np.isfinite(difference)
        if stored or not cleared:
            prefetch(rest, np.int64(indices[min(i + PREFETCH_INDICES, last)]), 1)
            rest[indices[i]] = difference if stored else 0
