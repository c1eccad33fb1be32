"""Exact top k by magnitude in about one read of the array; ties go to the lower index.

A sample of cache lines gives two keys that bracket the k-th largest, up to the sample's error:

    sparse   one sweep collects what reaches the lower key; the k-th is selected among the keys between
    dense    one sweep counts what reaches the upper key and collects the keys between; a second one fills
    neither  if samples mislead, digits are counted: a few reads for any input

The method and the division among threads affect only the time.
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

from wirecodec.arrays import Array, index_dtype, read_only
from wirecodec.errors import EncodeError

T = TypeVar("T")
IndicesAndBits: TypeAlias = "tuple[Array, Array]"
"""Positions, ascending, and the bits of the elements there."""

MAX_UNSAMPLED_SIZE = 4096
"""Elements up to which no sample is drawn."""
STANDARD_ERRORS = 3.0
"""Standard errors of the sample between the bracket's keys and the k-th."""
NEIGHBOUR_CORRELATION = 4.0
"""Number of neighbours that carry as much information as one random element."""
MIN_SPARSE_RECIPROCAL = 4
"""If n/k is below this, candidates would need as much memory as the array."""
ELEMENTS_PER_UNIT = 4096
"""Elements per unit; threads divide the array at multiples."""
MIN_UNITS_PER_THREAD = 2**21 // ELEMENTS_PER_UNIT
"""Units below which another thread costs more than it saves."""
MAX_PART_SIZE = 2**30
"""Elements whose positions are counted in 32 bits."""
MIN_PARALLEL_CANDIDATES = 2**17
"""Candidates below which one thread is faster than two."""


@dataclass(frozen=True)
class SamplePlan:
    """Size and ranks of a sample.

    Attributes:
        samples: number of elements.
        low: rank in the sample of a key that the k-th largest reaches.
        high: rank of a key that it does not reach; below 1 if the sample has none.
        fraction: upper bound, very probably, of the fraction of elements that reach the lower key.
        fraction_between: the same for the elements between the two keys.
    """

    samples: int
    low: int
    high: int
    fraction: float
    fraction_between: float


@lru_cache(maxsize=1024)
def plan_sample(size: int, k: int, run: int, spread: float = NEIGHBOUR_CORRELATION) -> SamplePlan:
    """Plan a sample of ``run`` neighbours at a time that costs about as much as the excess candidates."""
    fraction = k / size
    best = (STANDARD_ERRORS * size * math.sqrt(spread * fraction)) ** (2 / 3)
    samples = int(min(max(best, 2048), 131072, size // 8)) // run * run
    rank = samples * fraction
    error = STANDARD_ERRORS * math.sqrt(rank * spread * (1 - fraction))
    low = math.ceil(rank + error + STANDARD_ERRORS**2 / 2)
    high = math.floor(rank - error - 1)
    margin = (1.1 + 2 * STANDARD_ERRORS / math.sqrt(low)) / samples
    return SamplePlan(samples, low, high, min(low * margin, 1.0), min((low - max(high, 0)) * 2 * margin, 1.0))


def select_top_k(bits: Array, k: int) -> IndicesAndBits:
    """Return the positions of the k largest keys of flat ``bits``, and the bits there; 0 < k < size.

    A key is an element's bits without the sign. Positions are int32, or int64 above 2^31 elements.
    """
    bits = read_only(bits)
    if bits.size <= MAX_UNSAMPLED_SIZE:
        return _select_short(bits, k)
    from wirecodec.kernels.cpu.select import radix, sample

    run = 64 // bits.itemsize
    plan = plan_sample(bits.size, k, run)
    low, high, tied = sample.bracket_kth(bits, run, 0, plan.samples, plan.low, plan.high)
    if MIN_SPARSE_RECIPROCAL * k <= bits.size and not tied:
        found = _select_sparse(bits, k, low, high, plan.fraction)
    else:
        found = _select_dense(bits, k, low, high, plan.fraction_between, True)
    if found is None:
        # An adversary may know the fixed positions and mislead the sample, so the second one is random.
        plan, seed = plan_sample(bits.size, k, 1, 1.0), time.perf_counter_ns()
        low, high, tied = sample.bracket_kth(bits, 1, seed, plan.samples, plan.low, plan.high)
        found = _select_dense(bits, k, low, high, plan.fraction_between, tied)
    if found is None:
        found = _fill(bits, k, *radix.find_threshold_by_digits(bits, k))
    if found is None:
        raise EncodeError("the tensor changed while it was read")
    return found


def _select_short(bits: Array, k: int) -> IndicesAndBits:
    """Select with one kernel call, which costs less than a sample's three."""
    from wirecodec.kernels.cpu.select.select_each import select_short

    indices, words = np.empty(k, np.int32), np.empty(k, bits.dtype)
    if not select_short(bits, indices, words):
        raise EncodeError("the tensor changed while it was read")
    return indices, words


def _max_key(bits: Array) -> int:
    """Return the largest key of the type."""
    return (1 << (8 * bits.itemsize - 1)) - 1


def map_array_parts(size: int, work: Callable[[int, int], T]) -> list[T]:
    """Return [work(start, stop), ...] for the parts of an array, in order, on as many threads as pay off."""
    if size < 2 * MIN_UNITS_PER_THREAD * ELEMENTS_PER_UNIT:
        return [work(0, size)]
    from wirecodec.kernels.cpu.threads import map_ranges, thread_count

    def run_range(first: int, last: int) -> list[T]:
        cuts = [
            *range(first * ELEMENTS_PER_UNIT, last * ELEMENTS_PER_UNIT, MAX_PART_SIZE),
            min(last * ELEMENTS_PER_UNIT, size),
        ]
        return [work(start, stop) for start, stop in pairwise(cuts)]

    units = -(-size // ELEMENTS_PER_UNIT)
    least = max(
        MIN_UNITS_PER_THREAD, units // thread_count()
    )  # no more parts than needed: each has buffers of its own
    return [part for parts in map_ranges(run_range, units, least) for part in parts]


def map_parts(work: Callable[[int], T], n: int, candidates: int) -> list[T]:
    """Return [work(0), ... work(n - 1)] for n parts, in parallel if there are many candidates."""
    if candidates < MIN_PARALLEL_CANDIDATES:
        return [work(i) for i in range(n)]
    from wirecodec.kernels.cpu.threads import map_ranges

    results = map_ranges(lambda first, last: [work(i) for i in range(first, last)], n, 1)
    return [result for several in results for result in several]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates that a sweep collected from one part of the array; ``keep_top`` overwrites the buffers.

    Attributes:
        start: first position of the part.
        found: positions relative to ``start``, ascending.
        words: the bits there.
        certain: number of candidates that reach the upper key.
        keys: keys of the others.
    """

    start: int
    found: Array
    words: Array
    certain: int
    keys: Array

    @classmethod
    def collect(cls, start: int, found: Array, words: Array, low: int, high: int) -> Candidates:
        """Count the keys from ``high`` on, and collect those from ``low`` to below ``high``."""
        from wirecodec.kernels.cpu.select import terms, topk

        keys = np.empty(words.size + terms.SLACK, words.dtype)
        certain, n = topk.collect(words, low, high, keys)
        return cls(start, found, words, certain, keys[:n])


def _select_sparse(bits: Array, k: int, low: int, high: int, fraction: float) -> IndicesAndBits | None:
    """Select among the elements that reach ``low``.

    Returns None if they are fewer than k, or many more than planned.
    """
    from wirecodec.kernels.cpu.select import terms, topk

    def sweep(start: int, stop: int) -> tuple[int, int, Array, Array]:
        capacity = min(int(fraction * bits.size), stop - start) + terms.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, bits.dtype)
        return start, topk.sweep(bits[start:stop], low, found, words), found, words

    parts = map_array_parts(bits.size, sweep)
    if sum(n for _, n, _, _ in parts) < k or any(n < 0 for _, n, _, _ in parts):
        return None
    if len(parts) == 1:
        ((_, n, found, words),) = parts
        if topk.keep_top_k(found[:n], words[:n], k, low, high) != k:
            raise EncodeError("the tensor changed while it was read")
        return found[:k], words[:k]

    def count(i: int) -> Candidates:
        start, n, found, words = parts[i]
        return Candidates.collect(start, found[:n], words[:n], low, high)

    candidates = map_parts(count, len(parts), k)
    return keep_top(candidates, *find_threshold(candidates, k, low, high), index_dtype(bits.size))


def find_threshold(parts: list[Candidates], k: int, low: int, high: int) -> tuple[int, list[int], list[int]]:
    """Return the k-th largest key, and per part the ties to keep and the number of elements to keep."""
    from wirecodec.kernels.cpu.select import radix

    rank = k - sum(part.certain for part in parts)
    if rank <= 0:
        high = _max_key(parts[0].words)
        parts = [Candidates.collect(part.start, part.found, part.words, low, high) for part in parts]
        rank = k - sum(part.certain for part in parts)
    if rank <= 0:  # all of them have the largest key
        stops = [min(k, stop) for stop in accumulate(part.certain for part in parts)]
        counts = [stop - start for start, stop in pairwise([0, *stops])]
        return high, counts, counts
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
    """Keep the candidates above a threshold, and of each part the first ``ties`` equal to it."""
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

    if alone:
        keep(0)
    else:
        map_parts(keep, len(parts), stops[-1])
    return indices[: stops[-1]], words[: stops[-1]]


def _select_dense(
    bits: Array, k: int, low: int, high: int, fraction: float, tied: bool
) -> IndicesAndBits | None:
    """Select by counting, then filling.

    Returns None if the k-th key is not from ``low`` to below ``high``. A k-th key of ``low`` or less is
    filled only if ``tied`` says that many elements equal ``low``.
    """
    from wirecodec.kernels.cpu.select import radix, terms, topk

    if low == _max_key(bits):  # no key is above it
        return _fill(bits, k, low, k)

    def collect(start: int, stop: int) -> tuple[int, Array]:
        keys = np.empty(min(int(fraction * bits.size), stop - start) + terms.SWEEP_SLACK, bits.dtype)
        certain, n = topk.collect(bits[start:stop], low + 1, max(high, low + 1), keys)
        return (certain, keys[:n]) if n >= 0 else (k, keys[:0])

    parts = map_array_parts(bits.size, collect)
    rank = k - sum(certain for certain, _ in parts)
    keys = parts[0][1] if len(parts) == 1 else np.concatenate([keys for _, keys in parts])
    if rank <= 0 or (rank > keys.size and not tied):
        return None
    if rank > keys.size:
        return _fill(bits, k, low, rank - keys.size)
    return _fill(bits, k, *radix.find_threshold(keys, rank, (low ^ high).bit_length()))


def _fill(bits: Array, k: int, threshold: int, ties: int) -> IndicesAndBits | None:
    """Return the keys above ``threshold`` and the first ``ties`` equal to it, or None if these are not k."""
    from wirecodec.kernels.cpu.select import terms, topk

    indices, words = np.empty(k + terms.SLACK, index_dtype(bits.size)), np.empty(k + terms.SLACK, bits.dtype)
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
