"""The top k of each of many tensors: of an array, or of the sum of gradient, momentum and residual.

The sweep stores all sums. Those that are not selected may be ten times as many as the others, so that it
takes less time to overwrite the others when the received values are known.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.family import kernel_family
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import bound_rank
from wirecodec.kernels.cpu.select.term_bounds import bound_first, bracket_rows, prefetch_rows_sample
from wirecodec.kernels.cpu.select.terms import (
    SLACK,
    SWEEP_SLACK,
    split_factors,
    sweep_range,
    view_inputs,
    view_outputs,
)
from wirecodec.kernels.cpu.select.topk import NO_FACTORS, find_top, has_nonfinite, keep, sweep_array
from wirecodec.kernels.cpu.simd.memory import bit_width, store_fence
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.term_forms import FORM_NAMES, IDENTITY

U64 = np.uint64
FORM = IDENTITY
PART_SIZE = 8192
"""Elements that are swept between prefetches for the next tensor."""
MANY = 4
"""Candidates per selected element that show that the last threshold was far too low."""
MARGIN, RISE = 3, 6
"""Powers of 1/2, in octaves: how far a search starts below a guess, and how far a guess rises per step."""


@inline
def _fraction_of_octave(power: int, like: Array) -> np.uint64:
    """Return 2^-power octaves of a float32 or float64 as a difference of keys."""
    return U64(1) << U64((23 if bit_width(like) == 32 else 52) - power)


@inline
def _lower_guess(guess: np.uint64, like: Array) -> np.uint64:
    """Return a key that the next step's top k probably reach; 0 without a guess."""
    margin = _fraction_of_octave(MARGIN, like)
    return guess - margin if guess > margin else U64(0)


@inline
def _update_guess(guess: np.uint64, threshold: np.uint64, like: Array) -> np.uint64:
    """Return the next step's guess: the threshold if it is lower, else a little more than the last guess.

    Thresholds vary from step to step. A guess that follows the lowest of them seldom fails. Without a guess,
    return the threshold.
    """
    if guess == 0:
        return threshold
    return min(threshold, guess + _fraction_of_octave(RISE, like))


@kernel_family(FORM_NAMES)
def select(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    plans: Array,
    cuts: Array,
    infinity: int,
    order: Array,
    ahead: int,
    like: Array,
    like_out: Array,
    guesses: Array,
    indices: Array,
    words: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Select the top k of each tensor, and store the sums and the next momenta.

    A sweep starts at a guess of the threshold. If this does not hold the top k, the tensor is swept again,
    with a bound from its sample or its first elements.

    Args:
        addresses: (n, 5) i64, in the columns of ``term_forms``. Next momenta and sums are aligned to 64
            bytes; an address that the form does not use is 0.
        sizes: (n,) i64, fewer than 2^31 elements each.
        starts: (n + 1,) i64, the sums of the sizes before.
        factors: (3,).
        plans: (n, 4) i64: samples, rank of the lower key, rank of the upper key, capacity for candidates. Or
            no samples, the number of first elements that give a bound, 0, capacity.
        cuts: (n + 1,) i64, the place of each tensor's k elements in the output; 0 < k < size.
        infinity: key of Inf.
        order: (n,) i64, the order in which threads take the tensors.
        ahead: places in this order from a tensor to the next that the same thread probably takes.
        like, like_out: arrays of the types of the inputs and of the outputs.
        guesses: (n,) u64, keys that the last step's call returned here; 0 for none. Overwritten, except for
            IDENTITY, whose guesses are 0.
        indices: int32, written: positions in their tensor, ascending.
        words: as many, written: the bits of these elements.
        faults: (n,) bool, written: whether the sample misled, or one of the k is NaN or Inf. The output of
            such a tensor, its sum and its momentum are undefined.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    capacity = np.int64(0)
    for i in range(plans.shape[0]):
        capacity = max(capacity, plans[i, 3])
    found, bits = np.empty(capacity + SWEEP_SLACK, np.int32), np.empty(capacity + SWEEP_SLACK, words.dtype)
    scales = split_factors(factors)
    largest = (U64(1) << U64(bit_width(like) - 1)) - U64(1)
    unit = next_unit(turns, -1)
    while unit >= 0:
        i, following = order[unit], order[min(unit + ahead, order.size - 1)]
        start, stop = cuts[i], cuts[i + 1]
        g, u, v = view_inputs(addresses, sizes, i, like)
        after, total = view_outputs(addresses, sizes, i, like_out)
        here, capacity = found[: plans[i, 3] + SWEEP_SLACK], plans[i, 3] + SWEEP_SLACK - 2 * SLACK
        parts = (g.size + PART_SIZE - 1) // PART_SIZE
        low, high, tied = U64(0), largest, False
        if FORM > IDENTITY:
            low = _lower_guess(guesses[i], like)
        n, guessed = 0, low > U64(0)
        while True:
            if not guessed and plans[i, 0] > 0:
                ranks = plans[i, 1], plans[i, 2]
                low, high, tied = bracket_rows(
                    addresses, sizes, starts, i, i + 1, scales, like, plans[i, 0], ranks[0], ranks[1]
                )
            elif not guessed:
                low = bound_first(g, u, v, scales, plans[i, 1], stop - start)
            n = capacity + 1 if tied else 0
            for part in range(parts):
                if n <= capacity:
                    if guesses[following] == 0:
                        prefetch_rows_sample(
                            addresses, sizes, following, like, plans[following, 0], part, parts
                        )
                    first = part * PART_SIZE
                    last = min(first + PART_SIZE, g.size)
                    n = sweep_range(
                        g, u, v, scales, low, after, total, ~U64(0), here, bits, n, 0, first, last
                    )
            if stop - start <= n <= capacity or not guessed:
                break
            guessed = False
        store_fence()
        faults[i] = True
        if stop - start <= n <= capacity:
            threshold, ties = find_top(bits[:n], stop - start, np.int64(low), np.int64(high))
            out = words[start:stop]
            kept = keep(found[:n], bits[:n], threshold, ties, 0, indices[start:stop], out)
            faults[i] = kept < stop - start or has_nonfinite(out, infinity)
            if FORM > IDENTITY:
                last_guess = guesses[i] if n <= MANY * (stop - start) else U64(0)
                guesses[i] = U64(0) if faults[i] else _update_guess(last_guess, U64(threshold), like)
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
    n = sweep_array(bits, bits, bits, NO_FACTORS, low, swept, swept, U64(0), found, swept, 0, 0, 0, bits.size)
    if not indices.size <= n <= bits.size:
        return False
    threshold, ties = find_top(swept[:n], indices.size, np.int64(low), np.int64(high))
    return keep(found[:n], swept[:n], threshold, ties, 0, indices, words) == indices.size
