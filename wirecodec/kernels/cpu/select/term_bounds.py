"""Bounds of the k-th largest sum of a tensor, or of several: from a sample, or from the first elements.

The functions are families, and arrays are named as in ``terms``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.family import helper_family
from wirecodec.kernels.cpu.select.bisection import count_groups, rank_of_maxima, update_maxima
from wirecodec.kernels.cpu.select.sample import PREFETCH_RUNS, bracket_sample, find_run, plan_strata
from wirecodec.kernels.cpu.select.terms import SLACK, add_terms, advance, view_inputs
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch
from wirecodec.kernels.cpu.simd.vector import load, store
from wirecodec.kernels.term_forms import FORM_NAMES, HEAVY_BALL, IDENTITY, SUM

U64 = np.uint64
FORM = IDENTITY


@helper_family(FORM_NAMES)
def bound_first(g: Array, u: Array, v: Array, factors: Any, size: int, rank: int) -> np.uint64:
    """Apply ``bisection.bound_rank`` to x of the first ``size`` elements."""
    groups = count_groups(size, rank)
    if groups == 0:
        return U64(0)
    maxima = np.zeros(groups, g.dtype)
    for at in range(0, size & ~63, 64):
        gradient = load(g, at, 64)
        following = advance(gradient, load(u, at, 64), factors)
        x = add_terms(gradient, following, load(v, at, 64), factors)
        update_maxima(maxima, at, (x << 1) >> 1)
    return rank_of_maxima(maxima, rank)


@helper_family(FORM_NAMES)
def bracket_rows(
    addresses: Array,
    sizes: Array,
    starts: Array,
    first_row: int,
    stop_row: int,
    factors: Any,
    like: Array,
    samples: int,
    low_rank: int,
    high_rank: int,
) -> tuple[int, int, bool]:
    """Apply ``sample.bracket_kth`` to x of several tensors, joined as one vector; runs are cache lines.

    Args:
        addresses: (n, 5) i64, of the arrays of each tensor.
        sizes: (n,) i64.
        starts: (n + 1,) i64, the place of each tensor in the vector of all.
        first_row, stop_row: the tensors that are joined here.
        factors: from ``split_factors``.
        like: an array of the type of the inputs.
        samples, low_rank, high_rank: as for ``bracket_kth``.
    """
    run = 512 // bit_width(like)
    keys = np.empty(samples + SLACK, like.dtype)
    strata, origin = samples // run, starts[first_row]
    plan = plan_strata((starts[stop_row] - origin) // run, strata)
    here = ahead = first_row
    for stratum in range(strata + PREFETCH_RUNS):
        if stratum < strata:
            place = origin + find_run(stratum, plan, U64(0)) * run
            while starts[ahead + 1] <= place:
                ahead += 1
            _prefetch_inputs(addresses, sizes, ahead, like, place - starts[ahead])
        if stratum >= PREFETCH_RUNS:
            at = (stratum - PREFETCH_RUNS) * run
            place = origin + find_run(stratum - PREFETCH_RUNS, plan, U64(0)) * run
            while starts[here + 1] <= place:
                here += 1
            g, u, v = view_inputs(addresses, sizes, here, like)
            local = place - starts[here]
            if local + run <= g.size:
                for i in range(0, run, 8):
                    gradient = load(g, local + i, 8)
                    following = advance(gradient, load(u, local + i, 8), factors)
                    x = add_terms(gradient, following, load(v, local + i, 8), factors)
                    store(keys, at + i, (x << 1) >> 1)
            else:  # the run goes on in the next tensor
                for i in range(run):
                    last = min(local + i, g.size - 1)
                    one = load(g, last, 1)
                    x_one = add_terms(one, advance(one, load(u, last, 1), factors), load(v, last, 1), factors)
                    store(keys, at + i, (x_one << 1) >> 1)
    return bracket_sample(keys, samples, low_rank, high_rank)


@helper_family(FORM_NAMES)
def _prefetch_inputs(addresses: Array, sizes: Array, i: int, like: Array, at: int) -> None:
    """Prefetch a line of each input of a tensor."""
    g, u, v = view_inputs(addresses, sizes, i, like)
    prefetch(g, at, 1)
    if FORM >= SUM:
        prefetch(v, at, 1)
    if FORM >= HEAVY_BALL:
        prefetch(u, at, 1)


@helper_family(FORM_NAMES)
def prefetch_rows_sample(
    addresses: Array, sizes: Array, i: int, like: Array, samples: int, part: int, parts: int
) -> None:
    """Prefetch a part of the lines that ``bracket_rows`` reads of one tensor."""
    if samples == 0:
        return
    run = 512 // bit_width(like)
    strata = samples // run
    plan = plan_strata(sizes[i] // run, strata)
    for stratum in range(strata * part // parts, strata * (part + 1) // parts):
        _prefetch_inputs(addresses, sizes, i, like, find_run(stratum, plan, U64(0)) * run)
