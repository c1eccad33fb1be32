"""The exact top k by magnitude in about one read of the array; ties to the lower index.

A sample of cache lines tells between which two keys the k-th largest lies, give or take the sample's error:

    sparse   one sweep takes what reaches the lower key; the k-th is looked for among the keys between
    dense    one sweep counts what reaches the upper key and takes the keys between, a second one fills
    neither  where samples mislead, digits are counted: a few reads for any input

Which way was taken, and how the array was cut for threads, shows in the time alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.errors import EncodeError
from wirecodec.sparse import index_dtype

__all__ = [
    "Candidates",
    "SamplePlan",
    "find_threshold",
    "keep_top",
    "map_array_parts",
    "map_parts",
    "plan_sample",
    "select_top_k",
]

T = TypeVar("T")
IndicesAndBits: TypeAlias = "tuple[Array, Array]"
"""Positions, ascending, and the words there."""

MAX_UNSAMPLED_SIZE = 4096
"""Elements of which no sample is taken."""
STANDARD_ERRORS = 3.0
"""Standard errors of the sample between the bracket's keys and the k-th."""
NEIGHBOUR_CORRELATION = 4.0
"""How many neighbours tell as much as one element at random."""
MIN_SPARSE_RECIPROCAL = 4
"""From one in so many on, candidates would take as much room as the array."""
ELEMENTS_PER_UNIT = 4096
"""Elements; cuts between threads lie at multiples."""
MIN_UNITS_PER_THREAD = 2**21 // ELEMENTS_PER_UNIT
"""Units that are worth a thread."""
MAX_PART_SIZE = 2**30
"""Elements whose positions are counted in 32 bits."""
MIN_PARALLEL_CANDIDATES = 2**17
"""Candidates that one thread has settled before another one begins."""


@dataclass(frozen=True)
class SamplePlan:
    """How to sample.

    Attributes:
        samples: elements.
        low: rank in the sample of a key that the k-th reaches.
        high: rank of a key that it does not reach; below 1 where the sample cannot tell one.
        share: at most what share of all elements reaches the lower key, but for bad luck.
        between: at most what share lies between the two.
    """

    samples: int
    low: int
    high: int
    share: float
    between: float


@lru_cache(maxsize=1024)
def plan_sample(size: int, k: int, run: int, spread: float = NEIGHBOUR_CORRELATION) -> SamplePlan:
    """A sample, ``run`` elements at a time, that costs about as much as what it lets through in vain."""
    share = k / size
    best = (STANDARD_ERRORS * size * math.sqrt(spread * share)) ** (2 / 3)
    samples = int(min(max(best, 2048), 131072, size // 8)) // run * run
    rank = samples * share
    error = STANDARD_ERRORS * math.sqrt(rank * spread * (1 - share))
    low = math.ceil(rank + error + STANDARD_ERRORS**2 / 2)
    high = math.floor(rank - error - 1)
    luck = (1.1 + 2 * STANDARD_ERRORS / math.sqrt(low)) / samples
    return SamplePlan(samples, low, high, min(low * luck, 1.0), min((low - max(high, 0)) * 2 * luck, 1.0))


def select_top_k(bits: Array, k: int) -> IndicesAndBits:
    """Positions of the k largest keys of flat ``bits``, and the words there; 0 < k < size.

    A key is a word without its sign. Positions are int32, or int64 above 2^31.
    """
    from wirecodec.kernels.cpu.select import radix, sample

    bits = read_only(bits)
    found = None
    if bits.size <= MAX_UNSAMPLED_SIZE:
        found = _select_sparse(bits, k, 0, _max_key(bits), 1.0)
    else:
        run = 64 // bits.itemsize
        plan = plan_sample(bits.size, k, run)
        low, high, tied = sample.bracket_kth(bits, run, 0, plan.samples, plan.low, plan.high)
        if MIN_SPARSE_RECIPROCAL * k <= bits.size and not tied:
            found = _select_sparse(bits, k, low, high, plan.share)
        else:
            found = _select_dense(bits, k, low, high, plan.between, True)
        if found is None:
            # Who knows where samples lie may have put there what misleads: the next ones lie anywhere.
            plan, seed = plan_sample(bits.size, k, 1, 1.0), time.perf_counter_ns()
            low, high, tied = sample.bracket_kth(bits, 1, seed, plan.samples, plan.low, plan.high)
            found = _select_dense(bits, k, low, high, plan.between, tied)
    if found is None:
        found = _fill(bits, k, *radix.find_threshold_by_digits(bits, k))
    if found is None:
        raise EncodeError("the tensor changed while it was read")
    return found


def _max_key(bits: Array) -> int:
    """The largest key."""
    return (1 << (8 * bits.itemsize - 1)) - 1


def map_array_parts(size: int, work: Callable[[int, int], T]) -> list[T]:
    """[work(start, stop), …] of an array's parts, in order, on as many threads as it is worth."""
    from wirecodec.kernels.cpu.threads import map_ranges, thread_count

    def some(first: int, last: int) -> list[T]:
        cuts = [
            *range(first * ELEMENTS_PER_UNIT, last * ELEMENTS_PER_UNIT, MAX_PART_SIZE),
            min(last * ELEMENTS_PER_UNIT, size),
        ]
        return [work(start, stop) for start, stop in pairwise(cuts)]

    units = -(-size // ELEMENTS_PER_UNIT)
    least = max(
        MIN_UNITS_PER_THREAD, units // thread_count()
    )  # no more parts than needed: each has buffers of its own
    return [part for parts in map_ranges(some, units, least) for part in parts]


def map_parts(work: Callable[[int], T], n: int, candidates: int) -> list[T]:
    """[work(0), … work(n - 1)] on n parts with so many candidates, side by side where these are many."""
    from wirecodec.kernels.cpu.threads import map_ranges

    least = 1 if candidates >= MIN_PARALLEL_CANDIDATES else n
    some = map_ranges(lambda first, last: [work(i) for i in range(first, last)], n, least)
    return [done for several in some for done in several]


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a sweep took of one part of the array; its buffers are used up by ``keep_top``.

    Attributes:
        start: where the part begins.
        found: positions from there on, ascending.
        words: the words there.
        certain: how many of them reach the upper key.
        keys: the keys of the others.
    """

    start: int
    found: Array
    words: Array
    certain: int
    keys: Array

    @classmethod
    def of(cls, start: int, found: Array, words: Array, low: int, high: int) -> Candidates:
        """Counted and collected."""
        from wirecodec.kernels.cpu.select import topk

        keys = np.empty(words.size + topk.SLACK, words.dtype)
        certain, n = topk.collect(words, low, high, keys)
        return cls(start, found, words, certain, keys[:n])


def _select_sparse(bits: Array, k: int, low: int, high: int, share: float) -> IndicesAndBits | None:
    """From what reaches ``low``; None where that is fewer than k, or much more than thought."""
    from wirecodec.kernels.cpu.select import topk

    def swept(start: int, stop: int) -> tuple[int, int, Array, Array]:
        room = min(int(share * bits.size), stop - start) + topk.SWEEP_SLACK
        found, words = np.empty(room, np.int32), np.empty(room, bits.dtype)
        return start, topk.sweep(bits[start:stop], low, found, words), found, words

    parts = map_array_parts(bits.size, swept)
    if sum(n for _, n, _, _ in parts) < k or any(n < 0 for _, n, _, _ in parts):
        return None
    if len(parts) == 1:
        ((_, n, found, words),) = parts
        if topk.keep_top_k(found[:n], words[:n], k, low, high) != k:
            raise EncodeError("the tensor changed while it was read")
        return found[:k], words[:k]

    def counted(i: int) -> Candidates:
        start, n, found, words = parts[i]
        return Candidates.of(start, found[:n], words[:n], low, high)

    candidates = map_parts(counted, len(parts), k)
    return keep_top(candidates, *find_threshold(candidates, k, low, high), index_dtype(bits.size))


def find_threshold(parts: list[Candidates], k: int, low: int, high: int) -> tuple[int, list[int], list[int]]:
    """The k-th largest key, and of each part how many equal to it are kept, and how many altogether."""
    from wirecodec.kernels.cpu.select import radix

    rank = k - sum(part.certain for part in parts)
    if rank <= 0:
        high = _max_key(parts[0].words)
        parts = [Candidates.of(part.start, part.found, part.words, low, high) for part in parts]
        rank = k - sum(part.certain for part in parts)
    keys = parts[0].keys if len(parts) == 1 else np.concatenate([part.keys for part in parts])
    threshold, left = radix.find_threshold(keys, rank, (low ^ high).bit_length())
    if len(parts) == 1:
        return threshold, [left], [k]
    ties, sizes = [], []
    for part in parts:
        more, equal = radix.count_above_and_equal(part.keys, threshold)
        ties.append(min(left, equal))
        left -= ties[-1]
        sizes.append(part.certain + more + ties[-1])
    return threshold, ties, sizes


def keep_top(
    parts: list[Candidates], threshold: int, ties: list[int], sizes: list[int], dtype: np.dtype[Any]
) -> IndicesAndBits:
    """The candidates above a threshold, and of each part the first ``ties`` equal to it."""
    from wirecodec.kernels.cpu.select import topk

    stops = list(accumulate(sizes))
    alone = len(parts) == 1
    indices = parts[0].found if alone else np.empty(stops[-1], dtype)
    words = parts[0].words if alone else np.empty(stops[-1], parts[0].words.dtype)

    def keep(i: int) -> None:
        part, span = parts[i], slice(stops[i] - sizes[i], stops[i])
        narrow = indices.dtype == np.int32
        local, start = (indices[span], part.start) if narrow else (part.found[: sizes[i]], 0)
        if topk.keep(part.found, part.words, threshold, ties[i], start, local, words[span]) != sizes[i]:
            raise EncodeError("the tensor changed while it was read")
        if not narrow:
            np.add(local, part.start, out=indices[span])

    map_parts(keep, len(parts), stops[-1])
    return indices[: stops[-1]], words[: stops[-1]]


def _select_dense(
    bits: Array, k: int, low: int, high: int, share: float, tied: bool
) -> IndicesAndBits | None:
    """By counting, then filling; None where the k-th key does not lie from ``low`` to below ``high``.

    Or where it is ``low`` at most, and nothing says, as ``tied`` would, that filling is worth a try.
    """
    from wirecodec.kernels.cpu.select import radix, topk

    def collected(start: int, stop: int) -> tuple[int, Array]:
        keys = np.empty(min(int(share * bits.size), stop - start) + topk.SWEEP_SLACK, bits.dtype)
        certain, n = topk.collect(bits[start:stop], low + 1, max(high, low + 1), keys)
        return (certain, keys[:n]) if n >= 0 else (k, keys[:0])

    parts = map_array_parts(bits.size, collected)
    rank = k - sum(certain for certain, _ in parts)
    keys = parts[0][1] if len(parts) == 1 else np.concatenate([keys for _, keys in parts])
    if rank <= 0 or (rank > keys.size and not tied):
        return None
    if rank > keys.size:
        return _fill(bits, k, low, rank - keys.size)
    return _fill(bits, k, *radix.find_threshold(keys, rank, (low ^ high).bit_length()))


def _fill(bits: Array, k: int, threshold: int, ties: int) -> IndicesAndBits | None:
    """The keys above ``threshold`` and the first ``ties`` equal to it; None where they are not k."""
    from wirecodec.kernels.cpu.select import topk

    indices, words = np.empty(k + topk.SLACK, index_dtype(bits.size)), np.empty(k + topk.SLACK, bits.dtype)
    n = 0
    for start in range(0, bits.size, MAX_PART_SIZE):
        local = indices[n:].view(np.int32)[: indices.size - n]
        more, ties = topk.fill(bits[start : start + MAX_PART_SIZE], threshold, ties, local, words[n:])
        if more < 0:
            return None
        if indices.dtype != np.int32:
            indices[n : n + more] = local[:more].astype(np.int64) + start
        n += more
    return (indices[:k], words[:k]) if n == k else None
