"""Error feedback: add the residual, and find the candidates of the top k."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import count_groups, rank_of_maxima, update_maxima
from wirecodec.kernels.cpu.select.sample import PREFETCH_RUNS, bracket_sample, find_run, plan_strata
from wirecodec.kernels.cpu.select.topk import (
    BLOCK_SIZE,
    PREFETCH_ELEMENTS,
    PREFETCH_PAGES,
    SLACK,
    key_of,
    top_mask,
)
from wirecodec.kernels.cpu.simd.floats import add_floats
from wirecodec.kernels.cpu.simd.memory import prefetch, prefetch_ahead, store_fence, stream_store
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import extract_lane, load, mask_to_bits, select, store
from wirecodec.kernels.cpu.simd.words import trailing_zeros

U32 = np.uint32
U64 = np.uint64


@inline
def _add_one(a: Array, b: Array, i: int) -> Any:
    """Return the bits of one sum."""
    return extract_lane(add_floats(load(a, i, 1), load(b, i, 1)), 0)


@kernel
def bracket_sum(
    a: Array, b: Array, run: int, seed: int, samples: int, low_rank: int, high_rank: int
) -> tuple[int, int, bool]:
    """Apply ``sample.bracket_kth`` to the sums of two arrays of floats, given as their bits.

    ``run`` is a multiple of 8.
    """
    keys = np.empty(samples + SLACK, a.dtype)
    strata = samples // run
    plan = plan_strata(a.size // run, strata)
    for stratum in range(strata + PREFETCH_RUNS):
        if stratum < strata:
            ahead = find_run(stratum, plan, U64(seed)) * run
            prefetch(a, ahead, 1)
            prefetch(b, ahead, 1)
        if stratum >= PREFETCH_RUNS:
            first = find_run(stratum - PREFETCH_RUNS, plan, U64(seed)) * run
            at = (stratum - PREFETCH_RUNS) * run
            for i in range(0, run, 8):
                total = add_floats(load(a, first + i, 8), load(b, first + i, 8))
                store(keys, at + i, (total << 1) >> 1)
    return bracket_sample(keys, samples, low_rank, high_rank)


@inline
def bound_rank_of_sum(a: Array, b: Array, rank: int) -> np.uint64:
    """Apply ``bisection.bound_rank`` to the sums of two arrays of floats, given as their bits."""
    groups = count_groups(a.size, rank)
    if groups == 0:
        return U64(0)
    maxima = np.zeros(groups, a.dtype)
    for at in range(0, a.size & ~63, 64):
        update_maxima(maxima, at, (add_floats(load(a, at, 64), load(b, at, 64)) << 1) >> 1)
    return rank_of_maxima(maxima, rank)


@kernel
def sweep_sum(a: Array, b: Array, low: int, left: Array, found: Array, words: Array) -> int:
    """Apply ``topk.sweep`` to the sums of two arrays of floats, given as their bits, and store the sums.

    Args:
        a: (n,) fewer than 2^31 elements.
        b: (n,).
        low: a threshold.
        left: (n,) aligned to 64 bytes; it receives the sums below the threshold, and +0 for the others.
        found: int32, with slack; receives the positions of the others.
        words: as many; receives these sums.

    Returns the number of positions, or -1 if the buffers are too small.
    """
    n = sweep_sum_range(a, b, U64(low), left, U64(0), found, words, 0, 0, a.size)
    store_fence()
    return n if n <= found.size - 2 * SLACK else -1


@inline
def sweep_sum_range(
    a: Array,
    b: Array,
    least: np.uint64,
    left: Array,
    stored: np.uint64,
    found: Array,
    words: Array,
    n: int,
    start: int,
    stop: int,
) -> int:
    """Continue ``sweep_sum`` with elements start ... stop - 1 after n positions; see ``topk.sweep_range``.

    ``stored`` has the bits that ``left`` receives of the sums from the threshold on: none, or all. The caller
    ends with ``store_fence``.
    """
    whole = a.size & ~63
    for block in range(start, min(stop, whole), BLOCK_SIZE):
        if n > found.size - BLOCK_SIZE - SLACK:
            return found.size
        first = n
        prefetch_ahead(a, block + PREFETCH_PAGES, 1)
        prefetch_ahead(b, block + PREFETCH_PAGES, 1)
        prefetch_ahead(left, block + PREFETCH_PAGES, 1)
        for at in range(block, min(block + BLOCK_SIZE, stop, whole), 64):
            prefetch_ahead(a, at + PREFETCH_ELEMENTS, 64)
            prefetch_ahead(b, at + PREFETCH_ELEMENTS, 64)
            total = add_floats(load(a, at, 64), load(b, at, 64))
            at_least = (total << 1) >= (least << U64(1))
            stream_store(left, at, select(at_least, total & stored, total))
            n += store_set_bits(found, n, mask_to_bits(at_least), U32(at))
        for i in range(first, n):
            words[i] = _add_one(a, b, np.int64(U32(found[i])))
    if stop == a.size:
        if n > found.size - 2 * SLACK:
            return found.size
        for i in range(whole, stop):
            left[i] = _add_one(a, b, i)
            if key_of(left, i) >= least:
                found[n] = i
                words[n] = left[i]
                left[i] = U64(left[i]) & stored
                n += 1
    return n


@kernel
def restore_unselected(left: Array, found: Array, words: Array, threshold: int, ties: int) -> None:
    """Write back the words below a threshold, and those equal to it except the first ``ties``.

    ``found`` are positions within ``left``.
    """
    least = U64(threshold)
    positions = np.empty(words.size, np.int32)
    n = 0
    whole = words.size & ~63
    for at in range(0, whole, 64):
        mask, ties = top_mask(words, at, least, ties)
        rest = ~mask
        while rest != U64(0):
            positions[n] = at + trailing_zeros(rest)
            n += 1
            rest &= rest - U64(1)
    for i in range(whole, words.size):
        key = key_of(words, i)
        ties -= key == least
        if key < least or (key == least and ties < 0):
            positions[n] = i
            n += 1
    for i in range(n):  # the sweep's stores bypassed the caches, so prefetch
        prefetch(left, np.int64(found[positions[min(i + 32, n - 1)]]), 1)
        left[U64(U32(found[positions[i]]))] = words[positions[i]]


@kernel
def add(a: Array, b: Array, out: Array) -> bool:
    """Compute out = a + b; return whether all of it is finite."""
    finite = True
    for start in range(0, a.size, BLOCK_SIZE):
        x, y, z = (
            a[start : start + BLOCK_SIZE],
            b[start : start + BLOCK_SIZE],
            out[start : start + BLOCK_SIZE],
        )
        for i in range(z.size):
            z[i] = x[i] + y[i]
        for i in range(z.size):
            finite &= z[i] - z[i] == 0
    return finite
