"""Sums in rank order: what makes every rank's result the same bits, whoever computes it.

Each element is summed from +0, rank by rank, in at least float32; it is divided, for a mean, in the type of
the sum, and rounded once. MPI_Allreduce sums in an order of its own, which differs between MPIs, rank counts
and sizes.

``sum_dense`` is a reduce-scatter and an all-gather: each rank sums one range of the elements and tells the
others, so that 2(n-1)/n of the vector leave every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.channel import Channel
from collectives.pairwise import alltoall_ragged
from collectives.ring import allgather_joined, allgather_ragged
from collectives.transfer import NATIVE_BELOW, Octets

__all__ = ["Dense", "accumulator", "bounds_of", "finish", "sum_dense", "summed"]

Dense: TypeAlias = npt.NDArray[Any]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that values of ``dtype`` are summed in."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def finish(total: Dense, ranks: int, dtype: np.dtype[Any]) -> Dense:
    """Divide in the type of the sum, then round once.

    Args:
        total: overwritten.
        ranks: what to divide by.
        dtype: what to round to.
    """
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if ranks > 1:
            np.divide(total, total.dtype.type(ranks), out=total)
        return total.astype(dtype, copy=False)


def summed(vectors: Sequence[Dense]) -> Dense:
    """The sum of vectors (d,) in their order, from +0, in a new array."""
    total = np.zeros(vectors[0].size, accumulator(vectors[0].dtype))
    with np.errstate(all="ignore"):
        for vector in vectors:
            total += vector
    return total


def bounds_of(size: int, ranks: int) -> list[int]:
    """Where the ranks' ranges of ``size`` elements begin and end: ranks + 1 numbers."""
    return [size * rank // ranks for rank in range(ranks + 1)]


def sum_dense(channel: Channel, vector: Dense, divisor: int) -> Dense:
    """The sum in rank order of every rank's vector, divided by ``divisor``; the same bits on every rank.

    Args:
        channel: open; all ranks call this together.
        vector: (d,) of one type and size on all ranks; not changed.
        divisor: 1, or the number of ranks.

    Returns a new (d,) array of the same type. Raises Timeout.
    """
    n, dtype = channel.size, vector.dtype
    mine = _octets(vector)
    if n * len(mine) < NATIVE_BELOW or n == 1:
        blocks = allgather_ragged(channel, mine, [len(mine)] * n)
        return finish(summed([block.view(dtype) for block in blocks]), divisor, dtype)
    edges = bounds_of(vector.size, n)
    widths = [dtype.itemsize * (stop - start) for start, stop in pairwise(edges)]
    pieces = [_octets(vector[start:stop]) for start, stop in pairwise(edges)]
    found = alltoall_ragged(channel, pieces, [widths[channel.rank]] * n)
    with channel.guard():
        part = finish(summed([piece.view(dtype) for piece in found]), divisor, dtype)
        block = _octets(part)
    joined: Dense = allgather_joined(channel, block, widths).view(dtype)
    return joined


def _octets(vector: Dense) -> Octets:
    return np.ascontiguousarray(vector).view(np.uint8)
