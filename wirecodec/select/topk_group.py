"""Exact top k of many arrays, joined as one, found while gradient, momentum and residual are added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.select import topk_exact
from wirecodec.select.term_table import TermTable, map_pieces


def can_select_group(total: int, k: int) -> bool:
    """Tell whether ``select_top_k_of_group`` can be faster than adding first."""
    return (
        topk_exact.MAX_UNSAMPLED_SIZE < total <= topk_exact.MAX_PART_SIZE
        and topk_exact.MIN_SPARSE_RECIPROCAL * k <= total
    )


def select_top_k_of_group(table: TermTable, k: int) -> topk_exact.IndicesAndBits | None:
    """Return the positions, in the vector of all tensors, of the k largest sums, and their bits.

    Ties go to the lower position. The table's sums are written, with +0 at what is selected.

    Args:
        table: of the tensors.
        k: as ``can_select_group`` accepts it, above 0.

    Returns None, with undefined sums and momenta, if the sample misleads.
    """
    from wirecodec.kernels.cpu.select import momentum_batch, topk

    total, run = table.total, 64 // table.dtype.itemsize
    plan = topk_exact.plan_sample(total, k, run)
    like, like_out = table.samples
    terms = table.addresses, table.sizes, table.starts, read_only(table.factors), table.form
    low, high, tied = momentum_batch.bracket_group(*terms, like, plan.samples, plan.low, plan.high)
    if tied:
        return None

    def sweep(pieces: Array) -> topk_exact.Candidates | None:
        elements = int((pieces[:, 2] - pieces[:, 1]).sum())
        capacity = min(int(plan.fraction * total), elements) + topk.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, like.dtype)
        n = int(momentum_batch.sweep_group(*terms, low, pieces, like, like_out, found, words))
        return topk_exact.Candidates.collect(0, found[:n], words[:n], low, high) if n >= 0 else None

    swept: Sequence[topk_exact.Candidates | None] = map_pieces(sweep, table.sizes)
    parts = [part for part in swept if part is not None]
    if len(parts) < len(swept) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, sizes = topk_exact.find_threshold(parts, k, low, high)

    def put_back(i: int) -> None:
        part = parts[i]
        given = table.addresses, table.sizes, table.starts, like_out
        momentum_batch.restore_group(*given, part.found, part.words, threshold, ties[i])

    topk_exact.map_parts(put_back, len(parts), k)
    return topk_exact.keep_top(parts, threshold, ties, sizes, np.dtype(np.int32))
