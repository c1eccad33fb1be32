"""Bracket of the k-th largest key of an array, from a sample of its cache lines."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.bisection import bound_rank, collect_keys, find_rank, pad
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch
from wirecodec.kernels.cpu.simd.words import multiply_high

U64 = np.uint64
PREFETCH_RUNS = 24
SLACK = 64


@inline
def _hash(x: np.uint64) -> np.uint64:
    x = U64(x + U64(1)) * U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U64(32))) * U64(0xD35A2D97D35A2D97)
    return x ^ (x >> U64(32))


@inline
def plan_strata(runs: int, strata: int) -> tuple[np.uint64, np.uint64]:
    """Return the length of a stratum in runs / 2^20, and in whole runs; a loop would divide each time."""
    return (U64(runs) << U64(20)) // U64(strata), U64(runs) // U64(strata)


@inline
def find_run(stratum: int, plan: tuple[np.uint64, np.uint64], seed: np.uint64) -> int:
    """Return the sampled run of a stratum, of those that ``plan_strata`` has planned."""
    step, length = plan
    first = (U64(stratum) * step) >> U64(20)
    return np.int64(first + multiply_high(_hash(U64(stratum) + seed), length))


@kernel
def bracket_kth(
    bits: Array, run: int, seed: int, samples: int, low_rank: int, high_rank: int
) -> tuple[int, int, bool]:
    """Return two keys of a sample, and whether many more tie at the lower one than its rank.

    Args:
        bits: ``samples`` elements or more.
        run: neighbours that are sampled together.
        seed: of the positions, which are the same on any machine.
        samples: a multiple of ``run``, at least one.
        low_rank: rank of the lower key; the key is 0 if the sample has no such rank.
        high_rank: rank of the upper key; the key is the largest of the type if the rank is 0 or less.
    """
    keys = np.empty(samples + SLACK, bits.dtype)
    magnitude = (U64(1) << U64(bit_width(bits) - 1)) - U64(1)
    strata = samples // run
    plan = plan_strata(bits.size // run, strata)
    for stratum in range(strata + PREFETCH_RUNS):
        if stratum < strata:
            prefetch(bits, find_run(stratum, plan, U64(seed)) * run, 1)
        if stratum >= PREFETCH_RUNS:
            first = find_run(stratum - PREFETCH_RUNS, plan, U64(seed)) * run
            at = (stratum - PREFETCH_RUNS) * run
            for i in range(run):
                keys[at + i] = U64(bits[first + i]) & magnitude
    return bracket_sample(keys, samples, low_rank, high_rank)


@inline
def bracket_sample(keys: Array, n: int, low_rank: int, high_rank: int) -> tuple[int, int, bool]:
    """Return the result of ``bracket_kth`` for a sample's n ``keys``, with slack."""
    over = U64(1) << U64(bit_width(keys) - 1)
    low, high, reached = U64(0), over - U64(1), n
    top = keys[: pad(keys, n)]
    least = bound_rank(top, low_rank) if low_rank <= n else U64(0)
    if least > U64(0):  # both ranks are among these keys
        top = collect_keys(top, least, high)
    for search in range(2):  # a loop, so that the search is compiled once
        if search == 0 and low_rank <= n:
            rank, start = low_rank, least
        elif search == 1 and high_rank >= 1:
            rank, start = high_rank, low
        else:
            continue
        key, count = find_rank(top, rank, start, over, U64(1))
        if search == 0:
            low, reached = key, count
        else:
            high = key
    return low, high, 10 * reached > 11 * low_rank
