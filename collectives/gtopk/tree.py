"""Merging of sparse vectors along a binomial tree.

In round s = 1, 2, 4, …, rank r with r mod 2s = s sends its k elements to rank r - s and is done. That rank
adds them to its own, keeps the k largest sums, and keeps what it drops as a remainder. Rank 0 has the result
after ⌈log₂ n⌉ rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.channel import ByteArray, Channel
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.broadcast import broadcast

__all__ = ["Sparse", "merge", "merge_along_tree"]

Array = Any


@dataclass(frozen=True, eq=False)
class Sparse:
    """Elements of a vector.

    Attributes:
        indices: (k,) int64, ascending.
        values: (k,) float32 or float64.
    """

    indices: Array
    values: Array

    def to_bytes(self) -> ByteArray:
        """Return indices and values as bytes, in this machine's order."""
        return np.concatenate(
            [np.ascontiguousarray(part).view(np.uint8) for part in (self.indices, self.values)]
        )

    @classmethod
    def from_bytes(cls, block: ByteArray, k: int, dtype: np.dtype[Any], d: int) -> Sparse:
        """Read k elements of a vector of ``d``.

        Raises:
            ValueError: the indices do not ascend, or are out of range.
        """
        indices = block[: 8 * k].copy().view(np.int64)
        if k and not (int(indices[0]) >= 0 and int(indices[-1]) < d and bool((np.diff(indices) > 0).all())):
            raise ValueError("gtop-k: indices of another rank do not ascend, or are out of range")
        return cls(indices, block[8 * k :].copy().view(dtype))


def merge(one: Sparse, other: Sparse, k: int) -> tuple[Sparse, Sparse]:
    """Add two sparse vectors; return the k sums of largest magnitude, and the rest.

    Of equal magnitudes, the lower index is kept. A sum is ``one`` plus ``other``.
    """
    indices = np.union1d(one.indices, other.indices)
    sums = np.zeros(indices.size, one.values.dtype)
    sums[np.searchsorted(indices, one.indices)] = one.values
    with np.errstate(over="ignore"):
        sums[np.searchsorted(indices, other.indices)] += other.values
    limit = np.finfo(sums.dtype).max
    sums = np.clip(sums, -limit, limit)  # as sums of gradient and residual
    if indices.size <= k:
        return Sparse(indices, sums), Sparse(indices[:0], sums[:0])
    best = wc.TopK(k=k).select(sums).indices
    kept = np.zeros(indices.size, bool)
    kept[best] = True
    return Sparse(indices[kept], sums[kept]), Sparse(indices[~kept], sums[~kept])


def merge_along_tree(channel: Channel, own: Sparse, d: int) -> tuple[Sparse, list[Sparse]]:
    """Merge every rank's k elements; return the global ones, and what this rank dropped.

    Args:
        channel: open; all ranks call this together.
        own: this rank's elements; all ranks have equally many.
        d: size of the vector.
    """
    n, rank, k, dtype = channel.size, channel.rank, own.indices.size, own.values.dtype
    nbytes, dropped, here, step = k * (8 + dtype.itemsize), [], own, 1
    nothing: ByteArray = np.empty(0, np.uint8)
    while step < n:
        blocks, counts = [nothing] * n, [0] * n
        sender = rank % (2 * step) == step
        source = rank + step if rank % (2 * step) == 0 and rank + step < n else None
        if sender:
            blocks[rank - step] = here.to_bytes()
        if source is not None:
            counts[source] = nbytes
        received = alltoall_ragged(channel, blocks, counts)
        if source is not None:
            here, rest = merge(here, Sparse.from_bytes(received[source], k, dtype, d), k)
            dropped.append(rest)
        step *= 2
    found = broadcast(channel, here.to_bytes() if rank == 0 else nothing, nbytes, 0)
    return Sparse.from_bytes(found, k, dtype, d), dropped
