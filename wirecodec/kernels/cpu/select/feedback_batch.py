"""Exact top-k of many sums of gradient and residual in one call, and the residuals that are left.

The sweep stores all candidates. Those that are not selected may be ten times as many as the others, so that
it takes less time to overwrite the others when the received values are known.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.feedback import (
    bound_rank_of_sum,
    bracket_sum,
    sweep_sum_range,
)
from wirecodec.kernels.cpu.select.sample import prefetch_sample
from wirecodec.kernels.cpu.select.topk import SLACK, SWEEP_SLACK, find_top, keep
from wirecodec.kernels.cpu.select.topk_batch import PART_SIZE, has_nonfinite
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch, store_fence, view_at
from wirecodec.kernels.cpu.threads import next_unit

U64 = np.uint64
PREFETCH_INDICES = 24
MANY = 4
"""Candidates per selected element that show that the last threshold was far too low."""
MARGIN, RISE = 3, 6
"""Powers of 1/2, in octaves: how far a search starts below a guess, and how far a guess rises per step."""


@inline
def _fraction_of_octave(power: int, like: Array) -> np.uint64:
    """Return 2^-power octaves of a float32 or float64 as a difference of keys."""
    return U64(1) << U64((23 if bit_width(like) == 32 else 52) - power)


@inline
def lower_guess(guess: np.uint64, like: Array) -> np.uint64:
    """Return a key that the next step's top k probably reach; 0 without a guess."""
    margin = _fraction_of_octave(MARGIN, like)
    return guess - margin if guess > margin else U64(0)


@inline
def update_guess(guess: np.uint64, threshold: np.uint64, like: Array) -> np.uint64:
    """Return the next step's guess: the threshold if it is lower, else a little more than the last guess.

    Thresholds vary from step to step. A guess that follows the lowest of them seldom fails. Without a guess,
    return the threshold.
    """
    if guess == 0:
        return threshold
    return min(threshold, guess + _fraction_of_octave(RISE, like))


@inline
def _largest_key(like: Array) -> np.uint64:
    """Return the largest key of a type."""
    return (U64(1) << U64(bit_width(like) - 1)) - U64(1)


@inline
def _bound(a: Array, b: Array, run: int, plan: Array, k: int) -> tuple[np.uint64, np.uint64, bool]:
    """Return the bracket of the k-th largest sum, from a sample or from the first elements."""
    if plan[0] > 0:
        return bracket_sum(a, b, run, 0, plan[0], plan[1], plan[2])
    return bound_rank_of_sum(a[: plan[1]], b[: plan[1]], k), _largest_key(a), False


@kernel
def select_sums(
    addresses: Array,
    sizes: Array,
    plans: Array,
    cuts: Array,
    infinity: int,
    order: Array,
    ahead: int,
    like: Array,
    like_rest: Array,
    guesses: Array,
    indices: Array,
    words: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Select the top k of each sum, and store the sums; ``store_differences`` completes them.

    A sweep starts at a guess of the threshold. If this does not hold the top k, the array is swept again,
    with a bound from its sample or its first elements.

    Args:
        addresses: (n, 3) i64: of the gradient's bits, the residual's, and the sum's, which is aligned to 64
            bytes.
        sizes, plans, cuts, infinity, order, ahead: as for ``topk_batch.select``.
        like, like_rest: arrays of the types of the inputs and of the sum.
        guesses: (n,) u64, keys that ``update_guess`` returned before; 0 for none. Overwritten with the next.
        indices, words, faults, turns: as for ``topk_batch.select``. The sum of an array with a fault is
            undefined.
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
        a, b = view_at(addresses[i, 0], sizes[i], like), view_at(addresses[i, 1], sizes[i], like)
        later_a = view_at(addresses[following, 0], sizes[following], like)
        later_b = view_at(addresses[following, 1], sizes[following], like)
        rest = view_at(addresses[i, 2], sizes[i], like_rest)
        here, capacity = found[: plans[i, 3] + SWEEP_SLACK], plans[i, 3] + SWEEP_SLACK - 2 * SLACK
        parts = (a.size + PART_SIZE - 1) // PART_SIZE
        low, high, tied = lower_guess(guesses[i], like), _largest_key(like), False
        n, guessed = 0, low > U64(0)
        while True:
            if not guessed:
                low, high, tied = _bound(a, b, run, plans[i], stop - start)
            n = capacity + 1 if tied else 0
            for part in range(parts):
                if n <= capacity:
                    if guesses[following] == 0:
                        prefetch_sample(later_a, run, plans[following, 0], part, parts)
                        prefetch_sample(later_b, run, plans[following, 0], part, parts)
                    first = part * PART_SIZE
                    last = min(first + PART_SIZE, a.size)
                    n = sweep_sum_range(a, b, low, rest, ~U64(0), here, bits, n, first, last)
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
            last_guess = guesses[i] if n <= MANY * (stop - start) else U64(0)
            guesses[i] = U64(0) if faults[i] else update_guess(last_guess, U64(threshold), like)
        unit = next_unit(turns, unit)


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
