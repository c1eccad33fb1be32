"""Exact top k of many small arrays with one kernel call; the results are those of ``topk_exact``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wirecodec.arrays import Array, addresses_of, bits_of, read_only
from wirecodec.select import topk_exact
from wirecodec.select.base import INFINITY_BITS

__all__ = ["select_top_k_batch", "select_top_k_of_sums"]

MAX_SIZE = 2**23
"""Elements of the largest array of a batch."""
MIN_ELEMENTS_PER_THREAD = 2**20
"""Elements below which another thread costs more than it saves."""


@dataclass(frozen=True, eq=False)
class _BatchPlan:
    """Plan for arrays of given sizes.

    Attributes:
        members: numbers of the arrays that the batch takes.
        sizes: (n,) i64, their elements.
        plans: (n, 4) i64, as for the kernel.
        cuts: (n + 1,) i64, places in the output.
        order: (n,) i64, the members by size, largest first.
        units_per_thread: arrays that justify another thread.
        ahead: arrays from one to the next of the same thread.
    """

    members: tuple[int, ...]
    sizes: Array
    plans: Array
    cuts: Array
    order: Array
    units_per_thread: int
    ahead: int


@lru_cache(maxsize=64)
def _plan_batch(sizes: tuple[int, ...], counts: tuple[int, ...], itemsize: int, threads: int) -> _BatchPlan:
    """Plan a batch: which arrays it takes, and the sample of each.

    With several threads, an array of more than a thread's part is better divided among them.
    """
    largest = min(MAX_SIZE, sum(sizes) // (2 * threads)) if threads > 1 else MAX_SIZE
    members, plans = [], []
    for i, (size, k) in enumerate(zip(sizes, counts, strict=True)):
        if size <= topk_exact.MAX_UNSAMPLED_SIZE and 0 < k < size:
            members.append(i)
            plans.append((0, 0, 0, size))
        elif 0 < topk_exact.MIN_SPARSE_RECIPROCAL * k <= size <= largest:
            plan = topk_exact.plan_sample(size, k, 64 // itemsize)
            members.append(i)
            plans.append((plan.samples, plan.low, plan.high, min(int(plan.fraction * size), size)))
    taken = np.array([sizes[i] for i in members], np.int64)
    cuts = np.zeros(taken.size + 1, np.int64)
    np.cumsum([counts[i] for i in members], out=cuts[1:])
    enough = max(1, MIN_ELEMENTS_PER_THREAD * taken.size // max(1, int(taken.sum())))
    ahead = max(1, min(threads, taken.size // enough))
    order = np.argsort(-taken, kind="stable")
    return _BatchPlan(
        tuple(members), taken, np.array(plans, np.int64).reshape(-1, 4), cuts, order, enough, ahead
    )


def select_top_k_batch(
    arrays: Sequence[Array], counts: tuple[int, ...], infinity: int
) -> list[topk_exact.IndicesAndBits | None]:
    """Return what ``select_top_k`` returns for each array of bits, all of one type.

    Args:
        arrays: flat bits.
        counts: k of each array.
        infinity: bits of Inf.

    The result is None for an array that the batch does not take, and for one whose top k are not all finite.
    """
    from wirecodec.kernels.cpu.select import topk_batch
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    dtype = arrays[0].dtype
    plan = _plan_batch(tuple(x.size for x in arrays), counts, dtype.itemsize, thread_count())
    n = len(plan.members)
    if n == 0:
        return [None] * len(arrays)
    addresses = addresses_of([arrays[i] for i in plan.members])
    total = int(plan.cuts[-1])
    indices, words, faults = np.empty(total, np.int32), np.empty(total, dtype), np.empty(n, np.bool_)
    like = read_only(np.empty(0, dtype))
    run_parallel(
        lambda turns: topk_batch.select(
            addresses,
            plan.sizes,
            plan.plans,
            plan.cuts,
            infinity,
            plan.order,
            plan.ahead,
            like,
            indices,
            words,
            faults,
            turns,
        ),
        n,
        plan.units_per_thread,
    )
    return _split(plan, len(arrays), indices, words, faults)


def select_top_k_of_sums(
    gradients: Sequence[Array], residuals: Sequence[Array], rests: Sequence[Array], counts: tuple[int, ...]
) -> list[topk_exact.IndicesAndBits | None]:
    """Return what ``select_top_k_of_sum`` returns for each gradient, residual and sum, all of one type.

    Args:
        gradients: flat, float32 or float64.
        residuals: of the same sizes.
        rests: of the same sizes, aligned to 64 bytes; each receives its sum, with +0 at what is selected.
        counts: k of each.

    The result is None, with undefined contents of the sum, for an array that the batch does not take, and for
    one whose top k are not all finite.
    """
    from wirecodec.kernels.cpu.select import feedback_batch
    from wirecodec.kernels.cpu.threads import run_parallel, thread_count

    dtype = bits_of(gradients[0]).dtype
    plan = _plan_batch(tuple(x.size for x in gradients), counts, dtype.itemsize, thread_count())
    n = len(plan.members)
    if n == 0:
        return [None] * len(gradients)
    columns = [addresses_of([some[i] for i in plan.members]) for some in (gradients, residuals, rests)]
    addresses = np.stack(columns, axis=1)
    total = int(plan.cuts[-1])
    indices, words, faults = np.empty(total, np.int32), np.empty(total, dtype), np.empty(n, np.bool_)
    like = np.empty(0, dtype)
    infinity = int(INFINITY_BITS[gradients[0].dtype])
    run_parallel(
        lambda turns: feedback_batch.select_sums(
            addresses,
            plan.sizes,
            plan.plans,
            plan.cuts,
            infinity,
            plan.order,
            plan.ahead,
            read_only(like),
            like,
            indices,
            words,
            faults,
            turns,
        ),
        n,
        plan.units_per_thread,
    )
    return _split(plan, len(gradients), indices, words, faults)


def _split(
    plan: _BatchPlan, n: int, indices: Array, words: Array, faults: Array
) -> list[topk_exact.IndicesAndBits | None]:
    """Split the output into one result per array; None without one."""
    found: list[topk_exact.IndicesAndBits | None] = [None] * n
    places = plan.cuts.tolist()
    for i, fault, start, stop in zip(plan.members, faults.tolist(), places, places[1:], strict=False):
        if not fault:
            found[i] = indices[start:stop], words[start:stop]
    return found
