"""Sums of sparse tensors over the union of their supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.sparse import SparseTensor


def sum_sparse(tensors: Sequence[SparseTensor], dtype: np.dtype[Any]) -> tuple[Array | None, Array]:
    """Sum sparse tensors on the host, in their order from +0.

    An element is in the result if a tensor stores it, even if the sum is 0.

    Args:
        tensors: one or more, of one shape.
        dtype: type of the sums, float32 or float64.

    Returns:
        (the union, ascending, in the type of the tensors' indices, or None for all elements; the sums).
    """
    from wirecodec.kernels.cpu import support, union

    size = tensors[0].size
    with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
        values = [tensor.values.astype(dtype, copy=False) for tensor in tensors]
        if any(tensor.is_full for tensor in tensors):
            total = np.zeros(size, dtype)
            for tensor, each in zip(tensors, values, strict=True):
                if tensor.is_full:
                    total += each
                else:
                    where = read_only(tensor.indices.view(f"u{tensor.indices.itemsize}"))
                    support.add_at(total, where, read_only(each), dtype.type(1))
            return None, total
    indices = np.concatenate([tensor.indices for tensor in tensors])
    ends = np.cumsum([0, *(each.size for each in values)])
    room = min(int(ends[-1]), size)
    found, sums = np.empty(room, indices.dtype), np.empty(room, dtype)
    count = union.sum_union(read_only(indices), read_only(np.concatenate(values)), ends, size, found, sums)
    if count == size:
        return None, sums
    return found[:count].copy(), sums[:count].copy()
