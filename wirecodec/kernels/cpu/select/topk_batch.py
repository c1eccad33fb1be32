"""Exact top-k of many small arrays in one call: the sparse path of ``select.topk_exact``, array by array."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.select.sample import bracket_kth
from wirecodec.kernels.cpu.select.topk import SWEEP_SLACK, keep_top_k, key_of, sweep
from wirecodec.kernels.cpu.simd.memory import bit_width, view_at
from wirecodec.kernels.cpu.threads import next_unit

__all__ = ["select"]

U64 = np.uint64


@kernel
def select(
    addresses: Array,
    sizes: Array,
    plans: Array,
    cuts: Array,
    infinity: int,
    order: Array,
    like: Array,
    indices: Array,
    words: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Select the top k of each array.

    Args:
        addresses: (n,) i64, of the arrays' bits.
        sizes: (n,) i64, fewer than 2^31 elements each.
        plans: (n, 4) i64: samples, rank of the lower key, rank of the upper key, capacity for candidates; 0
            samples if all elements are candidates.
        cuts: (n + 1,) i64, the place of each array's k elements in the output; 0 < k < size.
        infinity: key of Inf.
        order: (n,) i64, the order in which threads take the arrays.
        like: an array of the type of the arrays.
        indices: int32, written: positions in their array, ascending.
        words: as many, written: the bits of these elements.
        faults: (n,) bool, written: whether the sample misled, or one of the k is NaN or Inf. The output of
            such an array is undefined.
        turns: counters of ``next_unit``; a unit is an array.
    """
    capacity = np.int64(0)
    for i in range(plans.shape[0]):
        capacity = max(capacity, plans[i, 3])
    found, bits = np.empty(capacity + SWEEP_SLACK, np.int32), np.empty(capacity + SWEEP_SLACK, words.dtype)
    run = 512 // bit_width(like)
    unit = next_unit(turns, -1)
    while unit >= 0:
        i = order[unit]
        start, k = cuts[i], cuts[i + 1] - cuts[i]
        x = view_at(addresses[i], sizes[i], like)
        samples = plans[i, 0]
        low, high = U64(0), (U64(1) << U64(bit_width(like) - 1)) - U64(1)
        tied = False
        if samples > 0:
            low, high, tied = bracket_kth(x, run, 0, samples, plans[i, 1], plans[i, 2])
        limit = plans[i, 3] + SWEEP_SLACK
        n = -1 if tied else sweep(x, np.int64(low), found[:limit], bits[:limit])
        faults[i] = True
        if n >= k and keep_top_k(found[:n], bits[:n], k, np.int64(low), np.int64(high)) == k:
            faults[i] = _copy(found, bits, infinity, indices[start : start + k], words, start)
        unit = next_unit(turns, unit)


@inline
def _copy(found: Array, bits: Array, infinity: int, indices: Array, words: Array, start: int) -> bool:
    """Copy an array's k elements to the output; return whether one of them is NaN or Inf."""
    nonfinite = False
    for j in range(indices.size):
        indices[j] = found[j]
        words[start + j] = bits[j]
        nonfinite |= key_of(bits, j) >= U64(infinity)
    return nonfinite
