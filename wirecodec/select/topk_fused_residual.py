"""Exact top k of gradient + residual, found while the two are added.

One sweep reads both arrays and writes their sum, with +0 at the candidates. Candidates outside the top k are
then written back. The inputs are not modified.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select import topk_exact
from wirecodec.sparse import index_dtype

__all__ = ["select_top_k_of_sum"]


def select_top_k_of_sum(a: Array, b: Array, k: int, left: Array) -> topk_exact.IndicesAndBits | None:
    """Return the positions of the k largest sums of flat ``a`` and ``b``, and the bits of these sums.

    Args:
        a: (n,) float32 or float64.
        b: (n,) of the same type.
        k: 0 < k < n.
        left: (n,) aligned to 64 bytes; it receives the sums, with +0 at the selected elements.

    Returns None, with undefined contents of ``left``, if adding first is no slower.
    """
    from wirecodec.kernels.cpu.select import feedback, topk

    x, y, rest = read_only(bits_of(a)), read_only(bits_of(b)), bits_of(left)
    if x.size <= topk_exact.MAX_UNSAMPLED_SIZE or topk_exact.MIN_SPARSE_RECIPROCAL * k > x.size:
        return None
    run = 64 // x.itemsize
    plan = topk_exact.plan_sample(x.size, k, run)
    low, high, tied = feedback.bracket_sum(x, y, run, 0, plan.samples, plan.low, plan.high)
    if tied:
        return None

    def sweep(start: int, stop: int) -> topk_exact.Candidates | None:
        capacity = min(int(plan.fraction * x.size), stop - start) + topk.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, x.dtype)
        n = feedback.sweep_sum(x[start:stop], y[start:stop], low, rest[start:stop], found, words)
        return topk_exact.Candidates.collect(start, found[:n], words[:n], low, high) if n >= 0 else None

    swept_parts = topk_exact.map_array_parts(x.size, sweep)
    parts = [part for part in swept_parts if part is not None]
    if len(parts) < len(swept_parts) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, sizes = topk_exact.find_threshold(parts, k, low, high)

    def put_back(i: int) -> None:
        part = parts[i]
        feedback.restore_unselected(rest[part.start :], part.found, part.words, threshold, ties[i])

    topk_exact.map_parts(put_back, len(parts), k)
    return topk_exact.keep_top(parts, threshold, ties, sizes, index_dtype(x.size))
