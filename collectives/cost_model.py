"""Cost model of the all-reduce algorithms: messages, bytes and elements, for the busiest rank.

    time = alpha · rounds + beta · bytes sent + gamma · dense elements + delta · stored elements

alpha to delta are measured once per channel (``collectives.tuning.calibration``). Each algorithm computes its
own ``Cost`` from a ``Workload``. With n ranks, f = (n-1)/n, k elements per rank of v bytes each, h bytes per
index, the union U, d elements, a rank sends:

    allgather      the containers of the others
    dense          2f·d·v
    split-pairs    f·(k(v+h) + U(v+h'))       split-bitmap  f·(k(v+h) + U·v + d/8)
    split-dense    f·(k(v+h) + d·v)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wirecodec.interop import estimate_index_bytes, estimate_union


@dataclass(frozen=True)
class Rates:
    """Measured costs in seconds, which all ranks of a channel share.

    Attributes:
        alpha: per message.
        beta: per byte.
        gamma: per element of a dense sum.
        delta: per stored element that is decoded and added.
    """

    alpha: float
    beta: float
    gamma: float
    delta: float


@dataclass(frozen=True)
class Cost:
    """Work of the busiest rank.

    Attributes:
        rounds: consecutive messages.
        nbytes: bytes sent.
        dense: array elements that it reads or writes.
        stored: elements that it encodes, or decodes and adds.
    """

    rounds: float
    nbytes: float
    dense: float
    stored: float

    def seconds(self, rates: Rates) -> float:
        """Compute the time at these rates."""
        communication = rates.alpha * self.rounds + rates.beta * self.nbytes
        return communication + rates.gamma * self.dense + rates.delta * self.stored


@dataclass(frozen=True)
class Workload:
    """Sizes of an all-reduce, the same on all ranks.

    Attributes:
        ranks: n.
        elements: d, of all tensors.
        nbytes: bytes of their values, d·v.
        blobs: bytes of all ranks' containers.
        gathered: bytes of all containers but the smallest.
        stored: elements in all containers.
        largest: elements in the largest container.
        union: estimated number of elements that at least one rank stores.
        pair: bytes of a value and its index, v + h; None for an estimate.
    """

    ranks: int
    elements: int
    nbytes: int
    blobs: int
    gathered: int
    stored: int
    largest: int
    union: float
    pair: float | None = None

    @classmethod
    def of(
        cls,
        elements: int,
        nbytes: int,
        blobs: Sequence[int],
        stored: Sequence[int],
        union: float | None = None,
    ) -> Workload:
        """Derive the sizes from those of every rank.

        Args:
            elements, nbytes: as above.
            blobs: bytes of every rank's container.
            stored: elements in every rank's container.
            union: the last count of its elements; None for the expected size of independent random supports.
        """
        total, largest = sum(stored), max(stored)
        union = estimate_union(elements, stored) if union is None else float(union)
        union = min(max(union, largest), total, elements)
        gathered = sum(blobs) - min(blobs)
        return cls(len(blobs), elements, nbytes, sum(blobs), gathered, total, largest, union)

    @property
    def fraction(self) -> float:
        """Return f, the part of the data that leaves a rank."""
        return (self.ranks - 1) / self.ranks

    @property
    def width(self) -> float:
        """Return v, the bytes of a value."""
        return self.nbytes / self.elements

    def pair_bytes(self, stored: float) -> float:
        """Return v + h, the bytes of a value and its index if this many elements are stored."""
        return self.width + estimate_index_bytes(stored, self.elements)
