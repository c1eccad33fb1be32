"""Exact top k of each of many tensors with one kernel call; the results are those of ``exact``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.base import INFINITY_BITS, BatchSelection
from wirecodec.select.term_table import MIN_ELEMENTS_PER_THREAD, TermTable, sum_before
from wirecodec.select.topk import exact

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


@dataclass(frozen=True, eq=False)
class _BatchPlan:
    """Plan for arrays of given sizes.

    Attributes:
        members: (n,) i64, numbers of the arrays that the batch takes.
        sizes: (n,) i64, their elements.
        starts: (n + 1,) i64, the sums of the sizes before.
        plans: (n, 4) i64, as for the kernels.
        cuts: (n + 1,) i64, places in the output.
        order: (n,) i64, the members by size, largest first.
        units_per_thread: arrays that justify another thread.
        ahead: arrays from one to the next of the same thread.
    """

    members: Array
    sizes: Array
    starts: Array
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
            0 < k < size <= exact.MAX_UNSAMPLED_SIZE
            or 0 < exact.MIN_SPARSE_RECIPROCAL * k <= size <= MAX_UNSAMPLED_BYTES // itemsize
        ):
            members.append(i)
            plans.append((0, _choose_head(size, k), 0, size))
        elif 0 < exact.MIN_SPARSE_RECIPROCAL * k <= size <= largest:
            plan = exact.plan_sample(size, k, 64 // itemsize)
            members.append(i)
            plans.append((plan.samples, plan.low, plan.high, min(int(plan.fraction * size), size)))
    taken = np.array(members, np.int64)
    elements = int(every[taken].sum())
    enough = least_units(MIN_ELEMENTS_PER_THREAD, taken.size, elements)
    return _BatchPlan(
        taken,
        every[taken],
        sum_before(every[taken]),
        np.array(plans, np.int64).reshape(-1, 4),
        sum_before(counts[taken]),
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


def select_top_k_each(selector: Any, table: TermTable, guesses: Array | None = None) -> BatchSelection | None:
    """Select the top k of each tensor of a table.

    The table's sums and momenta are written. What a sum has at its selected elements is undefined.

    Args:
        selector: its ``count`` returns k for a size.
        table: of the tensors.
        guesses: (n,) u64, of the thresholds of sums, from the last step, 0 for none; overwritten with the
            next.

    Tensors whose top k are not all finite are not among the members; sum and momentum of a tensor that is not
    a member are undefined. Returns None if there are no members.
    """
    from wirecodec.kernels.cpu.select import select_each
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    plan = _plan_batch(selector, table.sizes.tobytes(), table.dtype.itemsize, thread_count())
    if plan.members.size == 0:
        return None
    total, count, factors = int(plan.cuts[-1]), plan.members.size, read_only(table.factors)
    some = count < table.sizes.size
    addresses = table.addresses[plan.members] if some else table.addresses
    indices, bits = np.empty(total, np.int32), bits_of(np.empty(total, table.dtype))
    faults = np.empty(count, np.bool_)
    if guesses is None:
        guesses = np.zeros(table.sizes.size, np.uint64)
    thresholds = guesses[plan.members] if some else guesses
    given = addresses, plan.sizes, plan.starts, factors, plan.plans, plan.cuts
    order = int(INFINITY_BITS[table.dtype]), plan.order, plan.ahead
    written = thresholds, indices, bits, faults
    work = partial(select_each.select[table.form], *given, *order, *table.samples, *written)
    run_parallel(work, count, plan.units_per_thread)
    if some:
        guesses[plan.members] = thresholds
    return _without_faults(plan, indices, bits.view(table.dtype), faults)


def _without_faults(plan: _BatchPlan, indices: Array, values: Array, faults: Array) -> BatchSelection | None:
    """Remove the arrays with a fault; return None if no other is left."""
    if not faults.any():
        return BatchSelection(plan.members, plan.cuts, indices, values)
    if faults.all():
        return None
    counts = np.diff(plan.cuts)
    kept = np.repeat(~faults, counts)
    cuts = sum_before(counts[~faults])
    return BatchSelection(plan.members[~faults], cuts, indices[kept], values[kept])
