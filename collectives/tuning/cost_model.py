"""Which all-reduce takes the least time: bytes, messages and touched elements, at this network's rates.

    time = alpha · rounds + beta · bytes a rank sends + gamma · dense elements + delta · stored elements

alpha to delta are measured once a channel (``calibration``). The rest comes from the table of headers,
so that every rank computes the same numbers and makes the same choice. How much the ranks' choices overlap
is what the last exchange of the same tensors showed, and at first what chance would have it.

With n ranks, f = (n-1)/n, k elements a rank of v bytes each, h bytes an index, the union U, d elements:

    allgather      the encodings of the others
    dense          2f·d·v
    split-pairs    f·(k(v+h) + U(v+h'))       split-bitmap  f·(k(v+h) + U·v + d/8)
    split-dense    f·(k(v+h) + d·v)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectives.agreement.header import NO_DETAIL, Algorithm, Header
from collectives.channel import Channel
from collectives.exchange import Form
from collectives.rates import Rates
from collectives.tuning.calibration import rates_of

__all__ = ["Cost", "Workload", "choose", "costs", "index_bytes", "union_by_chance"]


@dataclass(frozen=True)
class Workload:
    """What an all-reduce is about, alike on all ranks.

    Attributes:
        ranks: n.
        elements: d, of all tensors.
        nbytes: of their values, d·v.
        blobs: bytes of every rank's encoding.
        stored: elements of every rank's encoding.
        union: how many elements at least one rank stores, as far as one can tell.
    """

    ranks: int
    elements: int
    nbytes: int
    blobs: tuple[int, ...]
    stored: tuple[int, ...]
    union: float

    @classmethod
    def of(cls, channel: Channel, table: Sequence[Header], forms: Mapping[str, Form]) -> Workload:
        """From the headers of an agreement."""
        elements = table[0].elements
        nbytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in forms.values())
        stored = tuple(elements if h.detail == NO_DETAIL else min(h.detail, elements) for h in table)
        known = channel.union_of(table[0].signature)
        union = union_by_chance(elements, stored) if known is None else float(known)
        union = min(max(union, *stored), sum(stored), elements)
        return cls(len(table), elements, nbytes, tuple(h.payload_len for h in table), stored, union)


@dataclass(frozen=True)
class Cost:
    """What the busiest rank has to do.

    Attributes:
        rounds: messages one after another.
        nbytes: sent.
        dense: elements of arrays that it goes through.
        stored: elements that it encodes, or decodes and adds.
    """

    rounds: float
    nbytes: float
    dense: float
    stored: float

    def seconds(self, rates: Rates) -> float:
        """At these rates."""
        moved = rates.alpha * self.rounds + rates.beta * self.nbytes
        return moved + rates.gamma * self.dense + rates.delta * self.stored


def choose(channel: Channel, work: Workload) -> Algorithm:
    """The algorithm of least expected time; the same on every rank."""
    if work.ranks == 1 or not work.elements:
        return Algorithm.ALLGATHER
    if sum(work.blobs) < _NOT_WORTH_CALIBRATING:
        return Algorithm.ALLGATHER
    rates = rates_of(channel)
    found = costs(work)
    return min(found, key=lambda algorithm: (found[algorithm].seconds(rates), algorithm))


_NOT_WORTH_CALIBRATING = 32 * 1024  # bytes; one native call moves them


def costs(work: Workload) -> dict[Algorithm, Cost]:
    """What each algorithm takes."""
    n, d = work.ranks, work.elements
    share = (n - 1) / n
    width = work.nbytes / d
    stored = max(work.stored)
    pieces = share * stored * (width + index_bytes(stored, d))
    received = share * sum(work.stored) / n
    first = Cost(2 * (n - 1), pieces, 0, 2 * stored + received)
    gathered = sum(work.blobs) - min(work.blobs)

    def split(second: float, sums: float) -> Cost:
        stored = first.stored + sums * (1 + 1 / n)
        return Cost(2 * first.rounds, first.nbytes + share * second, 3 * d, stored)

    return {
        Algorithm.ALLGATHER: Cost(n - 1, gathered, 3 * d, sum(work.stored)),
        Algorithm.DENSE: Cost(2 * (n - 1), 2 * share * work.nbytes, 4 * d, stored),
        Algorithm.SPLIT_PAIRS: split(work.union * (width + index_bytes(work.union, d)), work.union),
        Algorithm.SPLIT_BITMAP: split(work.union * width + d / 8, work.union),
        Algorithm.SPLIT_DENSE: split(work.nbytes, d),
    }


def index_bytes(stored: float, elements: int) -> float:
    """About how many bytes an index takes: the entropy of indices spread evenly, and 2 % more."""
    share = min(stored / elements, 1.0) if elements else 0.0
    if not 0 < share < 1:
        return 0.0
    entropy = -(share * math.log2(share) + (1 - share) * math.log2(1 - share))
    return 1.02 * entropy / share / 8


def union_by_chance(elements: int, stored: Sequence[int]) -> float:
    """Elements in at least one of the sets, where each were drawn without regard to the others."""
    missed = 1.0
    for count in stored:
        missed *= 1 - count / elements if elements else 1.0
    return elements * (1 - missed)
