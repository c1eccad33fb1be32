"""One exact top k of many sums, joined as one vector, found while their terms are added.

One sweep reads the terms and writes the sums, with +0 at the candidates. Candidates outside the top k are
then written back. A single sum is a table of one row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wirecodec.arrays import Array, index_dtype, read_only
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk import exact


def can_select_joint(size: int, k: int) -> bool:
    """Tell whether ``select_top_k_joint`` can be faster than adding first."""
    return size > exact.MAX_UNSAMPLED_SIZE and 0 < exact.MIN_SPARSE_RECIPROCAL * k <= size


def select_top_k_joint(table: TermTable, k: int) -> exact.IndicesAndBits | None:
    """Return the positions, in the vector of all tensors, of the k largest sums, and their bits.

    Ties go to the lower position. The table's sums are written, with +0 at what is selected, and the momenta.

    Args:
        table: of the tensors, in a form with sums.
        k: as ``can_select_joint`` accepts it.

    Returns None, with undefined sums and momenta, if the sample misleads.
    """
    from wirecodec.kernels.cpu.select import select_joint, terms

    size = table.total
    plan = exact.plan_sample(size, k, 64 // table.dtype.itemsize)
    like, like_out = table.samples
    tensors = table.addresses, table.sizes, table.starts
    given = *tensors, read_only(table.factors)
    bracket, sweep_pieces = select_joint.bracket[table.form], select_joint.sweep[table.form]
    low, high, tied = bracket(*given, like, plan.samples, plan.low, plan.high)
    if tied:
        return None

    def sweep(pieces: Array, origin: int, elements: int) -> exact.Candidates | None:
        capacity = min(int(plan.fraction * size), elements) + terms.SWEEP_SLACK
        found, words = np.empty(capacity, np.int32), np.empty(capacity, like.dtype)
        n = sweep_pieces(*given, low, pieces, origin, like, like_out, found, words)
        return exact.Candidates.collect(origin, found[:n], words[:n], low, high) if n >= 0 else None

    swept: Sequence[exact.Candidates | None] = table.map_parts(sweep)
    parts = [part for part in swept if part is not None]
    if len(parts) < len(swept) or sum(part.words.size for part in parts) < k:
        return None
    threshold, ties, sizes = exact.find_threshold(parts, k, low, high)

    def put_back(i: int) -> None:
        part = parts[i]
        select_joint.restore_unselected(
            *tensors, part.start, like_out, part.found, part.words, threshold, ties[i]
        )

    exact.map_parts(put_back, len(parts), k)
    return exact.keep_top(parts, threshold, ties, sizes, index_dtype(size))
