"""Exact top-k of many small arrays in one call: the sparse path of ``select.topk_exact``, array by array."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import bound_rank
from wirecodec.kernels.cpu.select.sample import bracket_kth, prefetch_sample
from wirecodec.kernels.cpu.select.topk import SLACK, SWEEP_SLACK, find_top, keep, key_of, sweep_range
from wirecodec.kernels.cpu.simd.memory import bit_width, view_at
from wirecodec.kernels.cpu.threads import next_unit

U64 = np.uint64
PART_SIZE = 8192
"""Elements that are swept between prefetches for the next array."""


@kernel
def select(
    addresses: Array,
    sizes: Array,
    plans: Array,
    cuts: Array,
    infinity: int,
    order: Array,
    ahead: int,
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
        plans: (n, 4) i64: samples, rank of the lower key, rank of the upper key, capacity for candidates. Or
            no samples, the number of first elements that give a bound, 0, capacity.
        cuts: (n + 1,) i64, the place of each array's k elements in the output; 0 < k < size.
        infinity: key of Inf.
        order: (n,) i64, the order in which threads take the arrays.
        ahead: places in this order from an array to the next that the same thread probably takes.
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
        i, following = order[unit], order[min(unit + ahead, order.size - 1)]
        start, stop = cuts[i], cuts[i + 1]
        x, later = (
            view_at(addresses[i], sizes[i], like),
            view_at(addresses[following], sizes[following], like),
        )
        low, high = U64(0), (U64(1) << U64(bit_width(like) - 1)) - U64(1)
        tied = False
        if plans[i, 0] > 0:
            low, high, tied = bracket_kth(x, run, 0, plans[i, 0], plans[i, 1], plans[i, 2])
        else:
            low = bound_rank(x[: plans[i, 1]], stop - start)
        here, capacity = found[: plans[i, 3] + SWEEP_SLACK], plans[i, 3] + SWEEP_SLACK - 2 * SLACK
        n = capacity + 1 if tied else 0
        parts = (x.size + PART_SIZE - 1) // PART_SIZE
        for part in range(parts):
            if n <= capacity:
                prefetch_sample(later, run, plans[following, 0], part, parts)
                first = part * PART_SIZE
                n = sweep_range(x, low, here, bits, n, first, min(first + PART_SIZE, x.size))
        faults[i] = True
        if stop - start <= n <= capacity:
            threshold, ties = find_top(bits[:n], stop - start, np.int64(low), np.int64(high))
            out = words[start:stop]
            kept = keep(found[:n], bits[:n], threshold, ties, 0, indices[start:stop], out)
            faults[i] = kept < stop - start or has_nonfinite(out, infinity)
        unit = next_unit(turns, unit)


@kernel
def select_short(bits: Array, indices: Array, words: Array) -> bool:
    """Select the top k of one short array without a sample; return False if another thread changed it.

    Args:
        bits: fewer than 2^31 elements.
        indices: (k,) int32, written: positions, ascending; 0 < k < size.
        words: (k,), written: the bits there.
    """
    found, swept = np.empty(bits.size + SWEEP_SLACK, np.int32), np.empty(bits.size + SWEEP_SLACK, bits.dtype)
    low, high = bound_rank(bits, indices.size), (U64(1) << U64(bit_width(bits) - 1)) - U64(1)
    n = sweep_range(bits, low, found, swept, 0, 0, bits.size)
    if not indices.size <= n <= bits.size:
        return False
    threshold, ties = find_top(swept[:n], indices.size, np.int64(low), np.int64(high))
    return keep(found[:n], swept[:n], threshold, ties, 0, indices, words) == indices.size


@inline
def has_nonfinite(words: Array, infinity: int) -> bool:
    """Return whether one of the elements is NaN or Inf."""
    found = False
    for j in range(words.size):
        found |= key_of(words, j) >= U64(infinity)
    return found
