"""Cost model of the all-reduce algorithms: messages, bytes and elements, at the measured rates.

    time = alpha · rounds + beta · bytes sent per rank + gamma · dense elements + delta · stored elements

alpha to delta are measured once per channel (``calibration``). The other quantities come from the table of
headers. So every rank computes the same numbers and makes the same choice. The size of the union of the
ranks' supports comes from the last count for the same tensors. Before the first count, it is the expected
size for independent random supports.

With n ranks, f = (n-1)/n, k elements per rank of v bytes each, h bytes per index, the union U, d elements, a
rank sends:

    allgather      the containers of the others
    dense          2f·d·v
    split-pairs    f·(k(v+h) + U(v+h'))       split-bitmap  f·(k(v+h) + U·v + d/8)
    split-dense    f·(k(v+h) + d·v)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from collectives.agreement.header import NO_DETAIL, Algorithm, Header
from collectives.channel import Channel
from collectives.exchange.specs import TensorSpec
from collectives.rates import Rates
from collectives.tuning.calibration import get_rates
from wirecodec.interop import estimate_index_bytes, estimate_union

MIN_CALIBRATED = 32 * 1024  # bytes of all containers; one native call moves fewer


@dataclass(frozen=True)
class Workload:
    """Sizes of an all-reduce, the same on all ranks.

    Attributes:
        ranks: n.
        elements: d, of all tensors.
        nbytes: bytes of their values, d·v.
        blobs: bytes of every rank's container.
        stored: elements in every rank's container.
        union: estimated number of elements that at least one rank stores.
    """

    ranks: int
    elements: int
    nbytes: int
    blobs: tuple[int, ...]
    stored: tuple[int, ...]
    union: float

    @classmethod
    def of(cls, channel: Channel, table: Sequence[Header], specs: Mapping[str, TensorSpec]) -> Workload:
        """Derive the sizes from the headers of an agreement."""
        elements = table[0].elements
        nbytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in specs.values())
        stored = tuple(elements if h.detail == NO_DETAIL else min(h.detail, elements) for h in table)
        known = channel.get_union(table[0].signature)
        union = estimate_union(elements, stored) if known is None else float(known)
        union = min(max(union, *stored), sum(stored), elements)
        return cls(len(table), elements, nbytes, tuple(h.payload_len for h in table), stored, union)


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


def choose_algorithm(
    channel: Channel, work: Workload, allowed: Collection[Algorithm] | None = None
) -> Algorithm:
    """Choose the algorithm with the least predicted time; the same on every rank.

    Args:
        channel: open; it may be calibrated here.
        work: the sizes.
        allowed: the algorithms to choose from, "allgather" among them; None for all.
    """
    if work.ranks == 1 or not work.elements:
        return Algorithm.ALLGATHER
    if sum(work.blobs) < MIN_CALIBRATED:
        return Algorithm.ALLGATHER
    rates = get_rates(channel)
    costs = {
        choice: cost for choice, cost in estimate_costs(work).items() if not allowed or choice in allowed
    }
    return min(costs, key=lambda algorithm: (costs[algorithm].seconds(rates), algorithm))


def estimate_costs(work: Workload) -> dict[Algorithm, Cost]:
    """Estimate the cost of each algorithm."""
    n, d = work.ranks, work.elements
    fraction = (n - 1) / n  # of the data that leaves a rank
    width = work.nbytes / d
    stored = max(work.stored)
    pieces = fraction * stored * (width + estimate_index_bytes(stored, d))
    received = fraction * sum(work.stored) / n
    first = Cost(2 * (n - 1), pieces, 0, 2 * stored + received)
    gathered = sum(work.blobs) - min(work.blobs)

    def split(second: float, sums: float) -> Cost:
        stored = first.stored + sums * (1 + 1 / n)
        return Cost(2 * first.rounds, first.nbytes + fraction * second, 3 * d, stored)

    return {
        Algorithm.ALLGATHER: Cost(n - 1, gathered, 3 * d, sum(work.stored)),
        Algorithm.DENSE: Cost(2 * (n - 1), 2 * fraction * work.nbytes, 4 * d, stored),
        Algorithm.SPLIT_PAIRS: split(work.union * (width + estimate_index_bytes(work.union, d)), work.union),
        Algorithm.SPLIT_BITMAP: split(work.union * width + d / 8, work.union),
        Algorithm.SPLIT_DENSE: split(work.nbytes, d),
    }
