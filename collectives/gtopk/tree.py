"""Merging of sparse vectors along a binomial tree.

In round s = 1, 2, 4, …, rank r with r mod 2s = s sends its k elements to rank r - s and is done. That rank
adds them to its own, keeps the k largest sums, and keeps what it drops as a remainder. Rank 0 has the result
after ⌈log₂ n⌉ rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from collectives.channel import ByteArray, Channel
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.broadcast import broadcast

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

    def to_bytes(self, d: int) -> ByteArray:
        """Return the elements of a vector of ``d`` as bytes, in this machine's order."""
        parts = [self.indices.astype(_index_type(d)), np.ascontiguousarray(self.values)]
        return np.concatenate([part.view(np.uint8) for part in parts])

    @classmethod
    def from_bytes(cls, block: ByteArray, k: int, dtype: np.dtype[Any], d: int) -> Sparse:
        """Read k elements of a vector of ``d``.

        Raises:
            ValueError: the indices do not ascend, or are out of range.
        """
        end = k * _index_type(d).itemsize
        indices = block[:end].copy().view(_index_type(d)).astype(np.int64)
        if k and not (int(indices[0]) >= 0 and int(indices[-1]) < d and bool((np.diff(indices) > 0).all())):
            raise ValueError("gtop-k: indices of another rank do not ascend, or are out of range")
        return cls(indices, block[end:].copy().view(dtype))


def _index_type(d: int) -> np.dtype[Any]:
    """Return the type in which indices of a vector of ``d`` are sent."""
    return np.dtype(np.uint32 if d <= 2**32 else np.int64)


def find_limit(dtype: np.dtype[Any], wide: np.dtype[Any], n: int) -> Any:
    """Return the largest magnitude of values whose sums over n ranks are finite, and whose mean is, too.

    A sum of 2^s values is at most 2^s times as large, because this limit times a power of two is not rounded.

    Args:
        dtype: type of the mean.
        wide: type of the values and sums, the same or a wider one.
        n: number of ranks.
    """
    limit, rounds = float(ml_dtypes.finfo(dtype).max), (n - 1).bit_length()
    if limit > float(np.finfo(wide).max) / 2**rounds:
        limit /= 2**rounds
    return wide.type(limit)


def merge(one: Sparse, other: Sparse, k: int) -> tuple[Sparse, Sparse]:
    """Add two sparse vectors; return the k sums of largest magnitude, and the rest.

    Of equal magnitudes, the lower index is kept. A sum is ``one`` plus ``other``, and finite if no value of a
    rank is beyond ``find_limit``.
    """
    indices = np.union1d(one.indices, other.indices)
    sums = np.zeros(indices.size, one.values.dtype)
    sums[np.searchsorted(indices, one.indices)] = one.values
    sums[np.searchsorted(indices, other.indices)] += other.values
    if indices.size <= k:
        return Sparse(indices, sums), Sparse(indices[:0], sums[:0])
    best = wc.selectors.TopK(k=k).select(sums).indices
    kept = np.zeros(indices.size, bool)
    kept[best] = True
    return Sparse(indices[kept], sums[kept]), Sparse(indices[~kept], sums[~kept])


@dataclass(eq=False)
class Merge:
    """Merge of one tensor along the tree, on one rank.

    Attributes:
        own: this rank's elements; all ranks have equally many.
        d: size of the vector.
        data: bytes of the merged elements, when they have arrived.
        dropped: elements that this rank has dropped.
    """

    own: Sparse
    d: int
    data: ByteArray = field(init=False)
    dropped: list[Sparse] = field(default_factory=list)

    def __post_init__(self) -> None:
        k, itemsize = self.own.indices.size, self.own.values.dtype.itemsize
        self.data = np.zeros(k * (_index_type(self.d).itemsize + itemsize), np.uint8)

    def read(self) -> Sparse:
        """Return the merged elements, the same on all ranks."""
        return Sparse.from_bytes(self.data, self.own.indices.size, self.own.values.dtype, self.d)


def merge_along_tree(channel: Channel, merging: Merge, *, is_last: bool = False) -> None:
    """Merge every rank's elements.

    Args:
        channel: open; all ranks call this together.
        merging: takes the result.
        is_last: whether the call ends with this merge.
    """
    own, d, data = merging.own, merging.d, merging.data
    n, rank, k, dtype, here, step = channel.size, channel.rank, own.indices.size, own.values.dtype, own, 1
    nothing: ByteArray = np.empty(0, np.uint8)
    while step < n:
        blocks, counts = [nothing] * n, [0] * n
        sender = rank % (2 * step) == step
        source = rank + step if rank % (2 * step) == 0 and rank + step < n else None
        if sender:
            blocks[rank - step] = here.to_bytes(d)
        if source is not None:
            counts[source] = len(data)
        received = alltoall_ragged(channel, blocks, counts)
        if source is not None:
            here, rest = merge(here, Sparse.from_bytes(received[source], k, dtype, d), k)
            merging.dropped.append(rest)
        step *= 2
    block = here.to_bytes(d) if rank == 0 else nothing
    channel.call.is_final_transfer = is_last
    broadcast(channel, block, len(data), 0, data)
