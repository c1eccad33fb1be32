"""Exact top k of many arrays, joined as one, found while gradient, momentum and residual are added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select import topk_exact
from wirecodec.select.topk_fused_residual import Terms

__all__ = ["select_top_k_of_group"]

MIN_PARALLEL_ELEMENTS = 2**20
"""Elements below which one thread is faster than two."""
_SAMPLE_SEED = 0x5EED  # any: the sample changes the time, never the result


def select_top_k_of_group(
    group: Sequence[Terms], k: int, lefts: Sequence[Array]
) -> list[topk_exact.IndicesAndBits] | None:
    """Return, for each array, the positions and the bits of those of its sums that are among the k largest.

    Ties go to the earlier array, and in an array to the lower position.

    Args:
        group: terms of one type.
        k: 0 < k < number of all elements.
        lefts: for each array (n,), aligned to 64 bytes; it receives the sums, with +0 at what is selected.

    Returns None, with undefined contents of ``lefts``, if another way is faster.
    """
    from wirecodec.kernels.cpu.select import feedback, momentum, topk
    from wirecodec.kernels.cpu.threads import map_ranges

    sizes = [left.size for left in lefts]
    total, run = sum(sizes), 64 // lefts[0].itemsize
    if total <= topk_exact.MAX_UNSAMPLED_SIZE or topk_exact.MIN_SPARSE_RECIPROCAL * k > total:
        return None
    if max(sizes) > topk_exact.MAX_PART_SIZE:
        return None
    plan = topk_exact.plan_sample(total, k, run)
    keys = _sample(group, plan.samples, run)
    ordered = np.sort(keys)[::-1]
    high = int(ordered[plan.high - 1]) if plan.high >= 1 else (1 << (8 * keys.itemsize - 1)) - 1
    low = int(ordered[plan.low - 1]) if plan.low <= keys.size else 0
    if 10 * np.count_nonzero(keys >= low) > 11 * plan.low:
        return None
    rests = [bits_of(left) for left in lefts]

    def sweep(i: int) -> topk_exact.Candidates | None:
        terms = group[i]
        capacity = min(int(plan.fraction * total), sizes[i]) + topk.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, rests[i].dtype)
        g, u, v = (read_only(bits_of(x)) for x in (terms.gradient, terms.momentum, terms.residual))
        after, given = bits_of(terms.after), (read_only(terms.factors), terms.form)
        n = int(momentum.sweep_total(g, u, v, *given, low, after, rests[i], found, words))
        return topk_exact.Candidates.collect(0, found[:n], words[:n], low, high) if n >= 0 else None

    least = 1 if total >= MIN_PARALLEL_ELEMENTS else len(sizes)
    swept = [
        part
        for several in map_ranges(lambda a, b: [sweep(i) for i in range(a, b)], len(sizes), least)
        for part in several
    ]
    parts = [part for part in swept if part is not None]
    if len(parts) < len(swept) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, kept = topk_exact.find_threshold(parts, k, low, high)

    def put_back(i: int) -> None:
        feedback.restore_unselected(rests[i], parts[i].found, parts[i].words, threshold, ties[i])

    topk_exact.map_parts(put_back, len(parts), k)
    indices, words = topk_exact.keep_top(parts, threshold, ties, kept, np.dtype(np.int32))
    cuts = np.cumsum([0, *kept]).tolist()
    return [(indices[a:b], words[a:b]) for a, b in pairwise(cuts)]


def _sample(group: Sequence[Terms], samples: int, run: int) -> Array:
    """Return the keys of about as many sums, in runs of neighbours, from all arrays in proportion."""
    starts = np.cumsum([0] + [terms.residual.size for terms in group])
    strata = samples // run
    first = (np.arange(strata) + np.random.default_rng(_SAMPLE_SEED).random(strata)) * (starts[-1] / strata)
    cuts = np.searchsorted(first, starts)
    found = []
    for i, terms in enumerate(group):
        local = first[cuts[i] : cuts[i + 1]].astype(np.int64) - starts[i]
        if not local.size:
            continue
        at = np.minimum(local[:, None] + np.arange(run), terms.residual.size - 1).reshape(-1)
        keep, factor, decay = terms.factors.astype(terms.residual.dtype)
        with np.errstate(all="ignore"):
            addend = factor * terms.gradient[at]
            if terms.momentum.size:
                addend = keep * terms.momentum[at] + addend
            found.append(decay * terms.residual[at] + addend)
    sums = np.concatenate(found)
    magnitude = (1 << (8 * sums.itemsize - 1)) - 1
    keys: Array = bits_of(sums) & sums.view(f"u{sums.itemsize}").dtype.type(magnitude)
    return keys
