"""Sums of gradient, momentum and residual of many tensors: the top k of each, or of all as of one vector.

The tensors are rows of a table of addresses. A group's positions are those in its tensors' elements, end to
end; its sums stay in an array per tensor.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import bound_rank
from wirecodec.kernels.cpu.select.feedback import restore_unselected
from wirecodec.kernels.cpu.select.momentum import add_range, bracket_total, sweep_total_range, total_one
from wirecodec.kernels.cpu.select.sample import PREFETCH_RUNS, bracket_sample
from wirecodec.kernels.cpu.select.topk import (
    SLACK,
    SWEEP_SLACK,
    find_top,
    keep,
    key_of,
    sweep_range,
    top_mask,
)
from wirecodec.kernels.cpu.select.topk_batch import has_nonfinite
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch, store_fence, view_at
from wirecodec.kernels.cpu.simd.words import trailing_zeros
from wirecodec.kernels.cpu.threads import next_unit

U32 = np.uint32
U64 = np.uint64
GRADIENT, MOMENTUM, RESIDUAL, AFTER, TOTAL = 0, 1, 2, 3, 4
"""Columns of the table of addresses."""
TENSOR, START, STOP = 0, 1, 2
"""Columns of the table of pieces: a range of a tensor's elements."""


@inline
def _input(addresses: Array, sizes: Array, i: int, column: int, like: Array) -> Array:
    """Return a tensor's array of a column; it is empty if its address is 0."""
    address = addresses[i, column]
    return view_at(address, sizes[i] if address != 0 else 0, like)


@kernel
def select_totals(
    addresses: Array,
    sizes: Array,
    factors: Array,
    form: int,
    plans: Array,
    cuts: Array,
    infinity: int,
    order: Array,
    like: Array,
    like_out: Array,
    indices: Array,
    words: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Select the top k of each sum, and store the sums with +0 at the selected elements, and the momenta.

    Args:
        addresses: (n, 5) i64: of the bits of gradient, momentum, residual, next momentum and sum; 0 for no
            momentum. The last two are aligned to 64 bytes.
        sizes: (n,) i64, fewer than 2^31 elements each.
        factors, form: as for ``momentum.sweep_total``.
        plans, cuts, infinity, order, indices, words, faults, turns: as for ``topk_batch.select``. The sum and
            the momentum of an array with a fault are undefined.
        like, like_out: arrays of the types of the inputs and of the outputs.
    """
    capacity = np.int64(0)
    for i in range(plans.shape[0]):
        capacity = max(capacity, plans[i, 3])
    found, bits = np.empty(capacity + SWEEP_SLACK, np.int32), np.empty(capacity + SWEEP_SLACK, words.dtype)
    run = 512 // bit_width(like)
    unit = next_unit(turns, -1)
    while unit >= 0:
        i = order[unit]
        start, stop = cuts[i], cuts[i + 1]
        g, u = _input(addresses, sizes, i, GRADIENT, like), _input(addresses, sizes, i, MOMENTUM, like)
        v = _input(addresses, sizes, i, RESIDUAL, like)
        after = _input(addresses, sizes, i, AFTER, like_out)
        rest = _input(addresses, sizes, i, TOTAL, like_out)
        low, high = U64(0), (U64(1) << U64(bit_width(like) - 1)) - U64(1)
        here, capacity = found[: plans[i, 3] + SWEEP_SLACK], plans[i, 3] + SWEEP_SLACK - 2 * SLACK
        sampled = plans[i, 0] > 0
        if sampled:
            low, high, tied = bracket_total(
                g, u, v, factors, form, run, 0, plans[i, 0], plans[i, 1], plans[i, 2]
            )
            n = capacity + 1
            if not tied:
                n = sweep_total_range(g, u, v, factors, form, low, after, rest, here, bits, 0, 0, 0, g.size)
            store_fence()
        else:  # the sum stays in the cache
            add_range(g, u, v, factors, form, after, rest, 0, g.size)
            low = bound_rank(rest, stop - start)
            n = sweep_range(rest, low, here, bits, 0, 0, rest.size)
        faults[i] = True
        if stop - start <= n <= capacity:
            threshold, ties = find_top(bits[:n], stop - start, np.int64(low), np.int64(high))
            if sampled:
                restore_unselected(rest, found[:n], bits[:n], threshold, ties)
            out = words[start:stop]
            kept = keep(found[:n], bits[:n], threshold, ties, 0, indices[start:stop], out)
            faults[i] = kept < stop - start or has_nonfinite(out, infinity)
            if not sampled:
                for j in range(start, start + kept):
                    rest[indices[j]] = 0
        unit = next_unit(turns, unit)


@kernel
def clear_at(
    indices: Array, cuts: Array, bases: Array, addresses: Array, sizes: Array, like: Array, turns: Array
) -> None:
    """Set elements of many arrays to 0.

    Args:
        indices: of all arrays.
        cuts: (n + 1,) i64, the place of each array's indices.
        bases: (n,) i64, subtracted from each array's indices.
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        like: an array of their type.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        array = view_at(addresses[unit], sizes[unit], like)
        for i in range(cuts[unit], cuts[unit + 1]):
            array[np.int64(indices[i]) - bases[unit]] = 0
        unit = next_unit(turns, unit)


@inline
def _choose_run(stratum: int, strata: int, runs: int) -> int:
    """Return one of ``runs`` for a stratum; all strata are equally long."""
    jitter = (U64(stratum) * U64(0x9E3779B97F4A7C15)) >> U64(40)
    return stratum * runs // strata + np.int64(jitter % U64(max(1, runs // strata)))


@kernel
def bracket_group(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    form: int,
    like: Array,
    samples: int,
    low_rank: int,
    high_rank: int,
) -> tuple[int, int, bool]:
    """Apply ``sample.bracket_kth`` to the sums of a group.

    ``starts`` is (n + 1,) i64, the place of each tensor in the group. Other arguments as for
    ``select_totals`` and ``bracket_kth``.
    """
    run = 512 // bit_width(like)
    keys = np.empty(samples + SLACK, like.dtype)
    magnitude = (U64(1) << U64(bit_width(like) - 1)) - U64(1)
    strata, runs = samples // run, starts[-1] // run
    here, ahead = 0, 0
    for stratum in range(strata + PREFETCH_RUNS):
        if stratum < strata:
            first = _choose_run(stratum, strata, runs) * run
            while starts[ahead + 1] <= first:
                ahead += 1
            for column in range(3):
                if addresses[ahead, column] != 0:
                    given = _input(addresses, sizes, ahead, column, like)
                    prefetch(given, first - starts[ahead], 1)
        if stratum >= PREFETCH_RUNS:
            first = _choose_run(stratum - PREFETCH_RUNS, strata, runs) * run
            while starts[here + 1] <= first:
                here += 1
            g, u = _input(addresses, sizes, here, 0, like), _input(addresses, sizes, here, 1, like)
            v = _input(addresses, sizes, here, 2, like)
            at, local = (stratum - PREFETCH_RUNS) * run, first - starts[here]
            for i in range(run):
                place = min(local + i, sizes[here] - 1)
                keys[at + i] = U64(total_one(g, u, v, factors, form, place)[0]) & magnitude
    return bracket_sample(keys, samples, low_rank, high_rank)


@kernel
def sweep_group(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    form: int,
    low: int,
    pieces: Array,
    like: Array,
    like_out: Array,
    found: Array,
    words: Array,
) -> int:
    """Apply ``momentum.sweep_total`` to pieces of a group.

    Args:
        addresses, sizes, starts, factors, form, like, like_out: as for ``select_totals`` and
            ``bracket_group``.
        low: a threshold.
        pieces: (m, 3) i64: a tensor, and a range of its elements, which starts at a multiple of 1024.
        found: int32, with slack; receives positions in the group.
        words: as many.

    Returns the number of positions, or -1 if the buffers are too small.
    """
    n = 0
    for piece in range(pieces.shape[0]):
        i = pieces[piece, TENSOR]
        n = sweep_total_range(
            _input(addresses, sizes, i, GRADIENT, like),
            _input(addresses, sizes, i, MOMENTUM, like),
            _input(addresses, sizes, i, RESIDUAL, like),
            factors,
            form,
            U64(low),
            _input(addresses, sizes, i, AFTER, like_out),
            _input(addresses, sizes, i, TOTAL, like_out),
            found,
            words,
            n,
            starts[i],
            pieces[piece, START],
            pieces[piece, STOP],
        )
        if n > found.size - 2 * SLACK:
            return -1
    store_fence()
    return n


@kernel
def add_group(
    addresses: Array, sizes: Array, factors: Array, form: int, pieces: Array, like: Array, like_out: Array
) -> bool:
    """Store the sums and momenta of pieces of a group; return whether all sums are finite.

    Arguments as for ``sweep_group``.
    """
    infinity = U64(0x7F800000) if bit_width(like) == 32 else U64(0x7FF << 52)
    finite = True
    for piece in range(pieces.shape[0]):
        i, start, stop = pieces[piece, TENSOR], pieces[piece, START], pieces[piece, STOP]
        out = _input(addresses, sizes, i, TOTAL, like_out)
        g, u = _input(addresses, sizes, i, GRADIENT, like), _input(addresses, sizes, i, MOMENTUM, like)
        v = _input(addresses, sizes, i, RESIDUAL, like)
        after = _input(addresses, sizes, i, AFTER, like_out)
        for block in range(start, stop, 1024):
            end = min(block + 1024, stop)
            add_range(g, u, v, factors, form, after, out, block, end)
            finite &= not has_nonfinite(out[block:end], infinity)
    return finite


@kernel
def restore_group(
    addresses: Array,
    sizes: Array,
    starts: Array,
    like_out: Array,
    found: Array,
    words: Array,
    threshold: int,
    ties: int,
) -> None:
    """Apply ``feedback.restore_unselected`` to the sums of a group; ``found`` are positions in the group."""
    least, tensor = U64(threshold), 0
    whole = words.size & ~63
    for at in range(0, words.size, 64):
        rest = U64(0)
        if at < whole:
            mask, ties = top_mask(words, at, least, ties)
            rest = ~mask
        else:
            for i in range(at, words.size):
                key = key_of(words, i)
                ties -= key == least
                if key < least or (key == least and ties < 0):
                    rest |= U64(1) << U64(i - at)
        while rest != U64(0):
            i = at + trailing_zeros(rest)
            position = np.int64(U32(found[i]))
            while starts[tensor + 1] <= position:
                tensor += 1
            out = _input(addresses, sizes, tensor, TOTAL, like_out)
            out[position - starts[tensor]] = words[i]
            rest &= rest - U64(1)
