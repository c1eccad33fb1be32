"""Exact top k of many small arrays with one kernel call; the results are those of ``topk_exact``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select import topk_exact
from wirecodec.select.base import INFINITY_BITS, BatchSelection
from wirecodec.select.term_table import TermTable

MAX_SIZE = 2**23
"""Elements of the largest array of a batch."""
MAX_UNSAMPLED_BYTES = 2**18
"""Bytes of an array whose first elements give a bound, and are read again; larger ones are sampled."""
HEAD_FACTOR = 4.0
"""First elements per geometric mean of size and k: where reading them again costs what they save."""
MIN_HEAD_PER_RANK = 16
"""First elements per element that is selected; the bound needs groups of them."""
MIN_HEAD = 256
"""First elements that give a bound at all: four for each of 64 groups."""
MIN_ELEMENTS_PER_THREAD = 2**20
"""Elements below which another thread costs more than it saves."""


@dataclass(frozen=True, eq=False)
class _BatchPlan:
    """Plan for arrays of given sizes.

    Attributes:
        members: (n,) i64, numbers of the arrays that the batch takes.
        sizes: (n,) i64, their elements.
        plans: (n, 4) i64, as for the kernels.
        cuts: (n + 1,) i64, places in the output.
        order: (n,) i64, the members by size, largest first.
        units_per_thread: arrays that justify another thread.
        ahead: arrays from one to the next of the same thread.
    """

    members: Array
    sizes: Array
    plans: Array
    cuts: Array
    order: Array
    units_per_thread: int
    ahead: int


@lru_cache(maxsize=64)
def _plan_batch(selector: Any, sizes: bytes, itemsize: int, threads: int) -> _BatchPlan:
    """Plan a batch: which arrays it takes, and the sample of each.

    With several threads, an array of more than a thread's part is better divided among them.

    Args:
        selector: its ``count`` returns k for a size.
        sizes: of the arrays, i64.
        itemsize: bytes per element.
        threads: number of threads.
    """
    from wirecodec.kernels.cpu.threads import least_units

    every = np.frombuffer(sizes, np.int64)
    counts = np.array([selector.count(size) for size in every.tolist()], np.int64)
    largest = min(MAX_SIZE, int(every.sum()) // (2 * threads)) if threads > 1 else MAX_SIZE
    members, plans = [], []
    for i, (size, k) in enumerate(zip(every.tolist(), counts.tolist(), strict=True)):
        if (
            0 < k < size <= topk_exact.MAX_UNSAMPLED_SIZE
            or 0 < topk_exact.MIN_SPARSE_RECIPROCAL * k <= size <= MAX_UNSAMPLED_BYTES // itemsize
        ):
            members.append(i)
            plans.append((0, _choose_head(size, k), 0, size))
        elif 0 < topk_exact.MIN_SPARSE_RECIPROCAL * k <= size <= largest:
            plan = topk_exact.plan_sample(size, k, 64 // itemsize)
            members.append(i)
            plans.append((plan.samples, plan.low, plan.high, min(int(plan.fraction * size), size)))
    taken = np.array(members, np.int64)
    cuts = np.zeros(taken.size + 1, np.int64)
    np.cumsum(counts[taken], out=cuts[1:])
    elements = int(every[taken].sum())
    enough = least_units(MIN_ELEMENTS_PER_THREAD, taken.size, elements)
    return _BatchPlan(
        taken,
        every[taken],
        np.array(plans, np.int64).reshape(-1, 4),
        cuts,
        np.argsort(-every[taken], kind="stable"),
        enough,
        max(1, min(threads, taken.size // enough)),
    )


def _choose_head(size: int, k: int) -> int:
    """Return how many of an array's first elements give the bound: a multiple of 64, or all.

    At least k of them reach the bound. With more first elements, fewer of the others do.
    """
    head = max(int(HEAD_FACTOR * math.sqrt(size * k)), MIN_HEAD_PER_RANK * k, MIN_HEAD) + 63 & ~63
    return head if 2 * head < size else size


def select_top_k_batch(
    addresses: Array, sizes: Array, dtype: np.dtype[Any], selector: Any
) -> BatchSelection | None:
    """Select what ``select_top_k`` selects from each of many arrays of one type.

    Args:
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        dtype: their type.
        selector: its ``count`` returns k for a size.

    Arrays whose top k are not all finite are not among the members. Returns None if the batch takes none.
    """
    from wirecodec.kernels.cpu.select import topk_batch
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    plan = _plan_batch(selector, sizes.tobytes(), dtype.itemsize, thread_count())
    if plan.members.size == 0:
        return None
    addresses = addresses[plan.members]
    indices, words, faults = _allocate_output(plan, dtype)
    like = read_only(np.empty(0, words.dtype))
    run_parallel(
        lambda turns: topk_batch.select(
            addresses,
            plan.sizes,
            plan.plans,
            plan.cuts,
            int(INFINITY_BITS[dtype]),
            plan.order,
            plan.ahead,
            like,
            indices,
            words,
            faults,
            turns,
        ),
        plan.members.size,
        plan.units_per_thread,
    )
    return _without_faults(plan, indices, words.view(dtype), faults)


def select_top_k_of_sums(
    addresses: Array, sizes: Array, dtype: np.dtype[Any], selector: Any, guesses: Array
) -> BatchSelection | None:
    """Select what ``select_top_k_of_sum`` selects from each gradient + residual, all of one type.

    Args:
        addresses: (n, 3) i64, of each gradient, its residual, and the array that receives the sum. This array
            is aligned to 64 bytes.
        sizes: (n,) i64, elements of each of the three.
        dtype: float32 or float64.
        selector: its ``count`` returns k for a size.
        guesses: (n,) u64, of the thresholds, from the last step, 0 for none; overwritten with the next.

    The sum is undefined if an array is not among the members. Returns None if the batch takes none.
    """
    from wirecodec.kernels.cpu.select import feedback_batch
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    plan = _plan_batch(selector, sizes.tobytes(), dtype.itemsize, thread_count())
    if plan.members.size == 0:
        return None
    addresses = addresses[plan.members]
    indices, words, faults = _allocate_output(plan, dtype)
    like, started = np.empty(0, words.dtype), guesses[plan.members]
    run_parallel(
        lambda turns: feedback_batch.select_sums(
            addresses,
            plan.sizes,
            plan.plans,
            plan.cuts,
            int(INFINITY_BITS[dtype]),
            plan.order,
            plan.ahead,
            read_only(like),
            like,
            started,
            indices,
            words,
            faults,
            turns,
        ),
        plan.members.size,
        plan.units_per_thread,
    )
    guesses[plan.members] = started
    return _without_faults(plan, indices, words.view(dtype), faults)


def select_top_k_of_totals(table: TermTable, selector: Any) -> BatchSelection | None:
    """Select what ``select_top_k_of_terms`` selects from each sum of a table.

    Args:
        table: of the tensors; the sums are written, with +0 at what is selected, and the momenta.
        selector: its ``count`` returns k for a size.

    Sum and momentum are undefined if a tensor is not among the members. Returns None if the batch takes none.
    """
    from wirecodec.kernels.cpu.select import momentum_batch
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    plan = _plan_batch(selector, table.sizes.tobytes(), table.dtype.itemsize, thread_count())
    if plan.members.size == 0:
        return None
    addresses = table.addresses[plan.members]
    indices, words, faults = _allocate_output(plan, table.dtype)
    run_parallel(
        lambda turns: momentum_batch.select_totals(
            addresses,
            plan.sizes,
            read_only(table.factors),
            table.form,
            plan.plans,
            plan.cuts,
            int(INFINITY_BITS[table.dtype]),
            plan.order,
            *table.samples,
            indices,
            words,
            faults,
            turns,
        ),
        plan.members.size,
        plan.units_per_thread,
    )
    return _without_faults(plan, indices, words.view(table.dtype), faults)


def _allocate_output(plan: _BatchPlan, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Allocate indices, bits and faults."""
    total = int(plan.cuts[-1])
    bits = bits_of(np.empty(total, dtype))
    return np.empty(total, np.int32), bits, np.empty(plan.members.size, np.bool_)


def _without_faults(plan: _BatchPlan, indices: Array, values: Array, faults: Array) -> BatchSelection | None:
    """Remove the arrays with a fault; return None if no other is left."""
    if not faults.any():
        return BatchSelection(plan.members, plan.cuts, indices, values)
    if faults.all():
        return None
    counts = np.diff(plan.cuts)
    kept = np.repeat(~faults, counts)
    cuts = np.zeros(int((~faults).sum()) + 1, np.int64)
    np.cumsum(counts[~faults], out=cuts[1:])
    return BatchSelection(plan.members[~faults], cuts, indices[kept], values[kept])
