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
from collectives.ring import allgather_ragged
from collectives.transfer import NATIVE_BELOW, SEGMENT, Octets, Side, in_step, segments_of, transfer

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
    n, rank, dtype = channel.size, channel.rank, vector.dtype
    mine = _octets(vector)
    if n * len(mine) < NATIVE_BELOW or n == 1:
        blocks = allgather_ragged(channel, mine, [len(mine)] * n)
        return finish(summed([block.view(dtype) for block in blocks]), divisor, dtype)
    with channel.guard():  # a rank that has no room for the others' pieces leaves them waiting
        out = np.empty(vector.size, dtype)
        pieces, sums = _cut(np.ascontiguousarray(vector), n), _cut(out, n)
        found = [np.empty(sums[rank].size, dtype) if other != rank else pieces[rank] for other in range(n)]
    _reduce(channel, pieces, found, sums, divisor)
    return out


def _reduce(
    channel: Channel, pieces: Sequence[Dense], found: Sequence[Dense], sums: Sequence[Dense], divisor: int
) -> None:
    """Pieces to their ranges' ranks, as ``pairwise`` has it; then the sums around a ring.

    A segment is summed, and passed on, as soon as the last rank's piece of it is there.

    Args:
        channel: open.
        pieces: this rank's, of each range.
        found: all ranks' of this one's range; filled, but for its own.
        sums: of each range; filled.
        divisor: 1, or the number of ranks.
    """
    n, rank = channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    arriving = [((rank - step) % n, found[(rank - step) % n]) for step in range(1, n)]
    arriving += [(left, sums[(left - step) % n]) for step in range(n - 1)]
    leaving = [((rank + step) % n, pieces[(rank + step) % n]) for step in range(1, n)]
    leaving += [(right, sums[(rank - step) % n]) for step in range(n - 1)]
    incoming = [(other, _octets(room)) for other, room in arriving]
    outgoing = [(other, _octets(block)) for other, block in leaving]
    first = sum(segments_of(len(room)) for _, room in incoming[: n - 2])  # of the last piece
    width = SEGMENT // sums[rank].itemsize

    def add(number: int) -> None:
        start = (number - first) * width
        if 0 <= start < sums[rank].size:
            part = slice(start, start + width)
            sums[rank][part] = finish(summed([piece[part] for piece in found]), divisor, sums[rank].dtype)

    transfer(
        channel,
        Side.of(incoming),
        Side.of(outgoing),
        in_step([room for _, room in incoming], [block for _, block in outgoing], passed_from=n - 1),
        "summing",
        add,
    )
    channel.bytes_sent += sum(len(block) for _, block in outgoing)


def _cut(vector: Dense, ranks: int) -> list[Dense]:
    """The ranks' ranges of a vector, as views."""
    return [vector[start:stop] for start, stop in pairwise(bounds_of(vector.size, ranks))]


def _octets(vector: Dense) -> Octets:
    return np.ascontiguousarray(vector).view(np.uint8)
