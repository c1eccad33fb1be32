"""Seconds of an exchange, computed from a machine's times and a network's bandwidth.

Every rank sends and receives at once, each at the full bandwidth, and every message adds its latency. For n
ranks, f = (n-1)/n, L = ⌈log2 n⌉, M bytes of a gradient, m bytes of its encoding and c = select + encode, the
algorithms cost each rank

    algorithm   computing                                             messages     bytes sent
    dense       f·add + finish/n                                      2L           2f·M
    narrow      c + decode + the computing of dense                   2L           2f·m
    decoded     c + decode + the computing of dense                   2(n-1)       2f·M
    allgather   c + n·decode + finish                                 n-1          (n-1)·m
    split       c + pairs of k and of U/n; add of k and of U; scan/n  4(n-1)       f·(p + u)
    clt-k       c + decode + finish + f·add·v/M                       3(n-1)       i + 2f·v + chain
    ok-topk     select + pieces and sums of k + n·piece + finish      4(n-1)       2f·m + n·piece
    factors     arithmetic + the computing of dense for m             6L           2f·m
    every H     (the computing of an exchange + move) / H             1/H          1/H

``dense`` sums the gradient without compression, in the fewest messages that send no more bytes (recursive
halving and doubling, as in MPI). ``narrow`` is for schemes that round every element to a shorter float, which
can be summed directly. The others are the algorithms of ``collectives``. The messages and bytes of the first
three are those of their records (``collectives.algorithms``): ``decoded`` is "dense" there. In ``allgather``
each rank adds up n encodings, its own too. In ``split``, each rank adds up one range of the elements: p bytes
of pairs for its k elements, and u for the union U of independent supports, as pairs, with a bitmap, or dense.
``clt-k`` is ScaleCom's method: one rank selects while the others wait, and broadcasts its i bytes of indices
along a chain of ranks. Every rank's values at these indices, v bytes, are summed like a dense vector.
``ok-topk`` sends the encoding in pieces to owners of ranges, and then the sums that they choose. ``factors``
is PowerSGD, which sums three vectors like dense ones.
``every H`` are local updates: an exchange every H steps, which also moves the parameters.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from collectives.advise.measurement import Gradient, Owned, Pairs, Stages
from collectives.advise.powersgd import SUMS
from collectives.agreement.header import Algorithm
from collectives.algorithms import ALGORITHMS
from collectives.cost_model import Workload
from collectives.oktopk.costs import compute_cost as compute_owned_cost
from collectives.sums.split import SPLITS
from collectives.transport.broadcast import compute_chain_segment
from collectives.transport.segments import MIN_SEGMENTED
from wirecodec.interop import estimate_union


@dataclass(frozen=True)
class Network:
    """Ranks, and the network between them.

    Args:
        ranks: 2 to 2^31 - 1.
        bandwidth: bytes per second that a rank can send while it receives as many.
        latency: seconds per message.
        ranks_per_core: number of ranks that share one core; their computing takes that many times as long.

    Raises:
        ValueError: an argument is out of range.

    Examples:
        >>> Network(ranks=8, bandwidth=1.25e9, latency=50e-6).ranks
        8
    """

    ranks: int
    bandwidth: float
    latency: float = 0.0
    ranks_per_core: float = 1.0

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ValueError(f"ranks is {self.ranks}; an exchange needs 2 ranks or more")
        if self.ranks >= 2**31:  # MPI counts ranks in a C int; larger integers overflow a float
            raise ValueError("ranks must be below 2^31")
        if not 0 < self.bandwidth < math.inf:
            raise ValueError(f"bandwidth is {self.bandwidth!r}; it must be above 0 and finite")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency is {self.latency!r}; it must be 0 or more and finite")
        if not 1 <= self.ranks_per_core < math.inf:
            raise ValueError(f"ranks_per_core is {self.ranks_per_core!r}; it must be 1 or more")


@dataclass(frozen=True)
class ExchangeCost:
    """Cost of one algorithm for the slowest rank.

    Attributes:
        algorithm: its name in the table above.
        computing: seconds.
        messages, nbytes: number of messages, one after the other, and bytes sent.
        compressed: whether ``nbytes`` is proportional to the bytes of the encoding.
        alone: seconds that one rank computes while the others wait.
    """

    algorithm: str
    computing: float
    messages: float
    nbytes: float
    compressed: bool = True
    alone: float = 0.0

    def seconds(self, network: Network) -> float:
        """Return the seconds of an exchange over a network with as many ranks."""
        return self.fixed_seconds(network) + self.nbytes / network.bandwidth

    def fixed_seconds(self, network: Network) -> float:
        """Return the seconds that no bandwidth shortens: computing, and the latency of all messages."""
        return self.computing * network.ranks_per_core + self.alone + self.messages * network.latency

    def spread(self, every: int, move: float) -> ExchangeCost:
        """Return the cost per step if this exchange, and ``move`` seconds, happen every few steps."""
        return dataclasses.replace(
            self,
            algorithm=f"{self.algorithm}, every {every}",
            computing=(self.computing + move) / every,
            messages=self.messages / every,
            nbytes=self.nbytes / every,
            alone=self.alone / every,
        )


@dataclass(frozen=True)
class Step:
    """What a training step takes beside its exchange.

    With overlap, the gradient is exchanged in pieces, one after the other, as soon as backward has computed
    them. So forward and the first piece come before the exchange, and the last piece is exchanged after all
    computing.

    Args:
        compute: seconds of forward and backward.
        overlap: whether gradients are exchanged during backward, on cores that have nothing else to do.
        pieces: shares of the gradient in the pieces, in their order; see ``share_buckets``.

    Raises:
        ValueError: ``compute`` or ``pieces`` is out of range.

    Examples:
        >>> Step(compute=0.3, overlap=True, pieces=(0.5, 0.5)).seconds(0.2)
        0.4
    """

    compute: float = 0.0
    overlap: bool = False
    pieces: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not 0 <= self.compute < math.inf:
            raise ValueError(f"compute is {self.compute!r}; it must be 0 or more and finite")
        if not all(share > 0 for share in self.pieces) or not math.isclose(sum(self.pieces), 1):
            raise ValueError(f"pieces is {self.pieces!r}; shares must be above 0, and their sum must be 1")

    def seconds(self, exchange: float, *, local: bool = False) -> float:
        """Return the seconds of a step; ``local`` movements are exchanged after computing, not during it."""
        return max(fixed for fixed, _ in self.parts(exchange, 0.0, local=local))

    def parts(self, fixed: float, nbytes: float, *, local: bool = False) -> tuple[tuple[float, float], ...]:
        """Return (seconds, bytes sent) of each chain of events; a step takes as long as the longest.

        A chain computes up to one piece, and then exchanges this piece and all that follow.

        Args:
            fixed: seconds of an exchange that no bandwidth shortens.
            nbytes: that it sends.
            local: as for ``seconds``.
        """
        if local or not self.overlap:
            return ((self.compute + fixed, nbytes),)
        chains, left = [], 1.0
        for share in self.pieces:
            ready = self.compute - max(0.0, left - share) * BACKWARD * self.compute
            chains.append((ready + left * fixed, left * nbytes))
            left -= share
        return tuple(chains)


BACKWARD = 2 / 3
"""Share of computing that is backward, which multiplies twice as many matrices as forward."""


FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20
"""Bytes that close a bucket of DistributedDataParallel: the first one, and the others."""


def share_buckets(sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the shares of a model in the buckets of DistributedDataParallel, by default, in their order.

    A bucket takes tensors, the last one of the model first, until it has its bytes.

    Args:
        sizes: bytes of each tensor of the model. A single size is that of a model of small tensors.

    Examples:
        >>> share_buckets([4_000_000] * 10)
        (0.1, 0.7, 0.2)
        >>> [round(share, 2) for share in share_buckets([40_000_000])]
        [0.03, 0.66, 0.32]
    """
    total = sum(sizes)
    if len(sizes) == 1:
        rest = max(0, total - FIRST_BUCKET)
        buckets = [min(total, FIRST_BUCKET), *[BUCKET] * (rest // BUCKET), rest % BUCKET]
    else:
        buckets = [0]
        for size in reversed(sizes):
            if buckets[-1] >= (BUCKET if len(buckets) > 1 else FIRST_BUCKET):
                buckets.append(0)
            buckets[-1] += size
    return tuple(nbytes / total for nbytes in buckets if nbytes) or (1.0,)


EXCHANGE_ALONE = Step()
"""Nothing is computed, so that exchanges are compared."""


def compute_dense_cost(gradient: Gradient, ranks: int) -> ExchangeCost:
    """Compute the cost of summing the gradient without compression: reduce-scatter and all-gather."""
    fraction, rounds = (ranks - 1) / ranks, (ranks - 1).bit_length()  # ⌈log2 n⌉
    computing = fraction * gradient.add + gradient.finish / ranks
    return ExchangeCost("dense", computing, 2 * rounds, 2 * fraction * gradient.nbytes, compressed=False)


def compute_costs(stages: Stages, gradient: Gradient, ranks: int) -> tuple[ExchangeCost, ...]:
    """Compute the costs of the algorithms that can sum the encodings of a scheme."""
    if stages.every > 1:
        single = dataclasses.replace(stages, every=1)
        return tuple(
            cost.spread(stages.every, gradient.move) for cost in compute_costs(single, gradient, ranks)
        )
    if stages.factored:
        return (_compute_factors_cost(stages, gradient, ranks),)
    if stages.owned is not None:
        return (_compute_owned_cost(stages, stages.owned, gradient, ranks),)
    if stages.index_bytes is not None:
        return (_compute_cltk_cost(stages, stages.index_bytes, gradient, ranks),)
    dense = compute_dense_cost(gradient, ranks)
    once = stages.select + stages.encode
    work = _describe(stages, gradient, ranks)
    gathered = ALGORITHMS[Algorithm.ALLGATHER].cost(work)
    computing = once + ranks * stages.decode + gradient.finish
    exchanges = [ExchangeCost("allgather", computing, gathered.rounds, gathered.nbytes)]
    if stages.pairs is not None and work.blobs >= MIN_SEGMENTED:
        exchanges.append(_compute_split_cost(once, stages.pairs, gradient, work))
    computing = once + stages.decode + dense.computing
    if stages.summable:
        nbytes = 2 * work.fraction * stages.nbytes
        return *exchanges, ExchangeCost("narrow", computing, dense.messages, nbytes)
    summed = ALGORITHMS[Algorithm.DENSE].cost(work)
    return *exchanges, ExchangeCost("decoded", computing, summed.rounds, summed.nbytes, compressed=False)


def find_fastest(costs: Sequence[ExchangeCost], network: Network) -> ExchangeCost:
    """Return the cost of the fewest seconds over this network; the first of several equal ones."""
    return min(costs, key=lambda cost: cost.seconds(network))


def find_paying_bandwidths(
    costs: Sequence[ExchangeCost],
    dense: ExchangeCost,
    latency: float = 0.0,
    step: Step = EXCHANGE_ALONE,
    *,
    local: bool = False,
) -> tuple[tuple[float, float], ...]:
    """Find the bandwidths at which a step with an algorithm takes less time than one with the dense sum.

    Args:
        costs: of the algorithms of a scheme.
        dense: the cost of the dense sum.
        latency: seconds per message.
        step: what a step takes beside its exchange.
        local: whether these are local updates.

    Returns:
        Intervals (low, high) in bytes per second, ends excluded, within 0 to inf. They ascend and do not
        overlap. Usually there is one, from 0.
    """
    network = Network(2, 1.0, latency)
    reference = step.parts(dense.fixed_seconds(network), dense.nbytes)
    intervals = []
    for cost in costs:
        fixed = cost.fixed_seconds(network)
        intervals += _find_intervals(step.parts(fixed, cost.nbytes, local=local), reference)
    union: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if union and low < union[-1][1]:
            union[-1] = union[-1][0], max(high, union[-1][1])
        else:
            union.append((low, high))
    return tuple(union)


def _find_intervals(
    parts: Sequence[tuple[float, float]], reference: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Find the bandwidths at which the longest of ``parts`` is shorter than the longest of ``reference``.

    Each part is a line over x = 1 / bandwidth, so the sign of the gain changes only where two lines cross.
    """
    lines = [*parts, *reference]
    crossings = {
        (other[0] - one[0]) / (one[1] - other[1]) for one in lines for other in lines if one[1] != other[1]
    }
    ends = [0.0, *sorted(x for x in crossings if 0 < x < math.inf), math.inf]
    intervals: list[tuple[float, float]] = []
    for left, right in itertools.pairwise(ends):
        x = (left + right) / 2 if right < math.inf else 2 * left + 1
        if _longest(reference, x) > _longest(parts, x):
            high = 1 / left if left else math.inf
            if intervals and intervals[-1][0] == high:
                high = intervals.pop()[1]
            intervals.append((1 / right, high))
    return intervals


def _longest(parts: Sequence[tuple[float, float]], x: float) -> float:
    return max(fixed + nbytes * x for fixed, nbytes in parts)


def compute_min_ratio(stages: Stages, gradient: Gradient, network: Network) -> float:
    """Compute the ratio M/m above which a scheme with these times pays; inf if it never does."""
    available = compute_dense_cost(gradient, network.ranks).seconds(network)
    ratio = math.inf
    index_bytes = stages.index_bytes and stages.index_bytes * gradient.nbytes // stages.nbytes
    whole = dataclasses.replace(stages, nbytes=gradient.nbytes, index_bytes=index_bytes, pairs=None)
    for cost in compute_costs(whole, gradient, network.ranks):
        seconds = available - cost.fixed_seconds(network)  # that remain for sending
        if cost.compressed and seconds > 0:
            ratio = min(ratio, cost.nbytes / network.bandwidth / seconds)
    return ratio


def _describe(stages: Stages, gradient: Gradient, ranks: int) -> Workload:
    """Return the sizes of an exchange of equally large encodings; without pairs, elements do not count."""
    elements = stored = 0
    union, pair = 0.0, None
    if stages.pairs is not None:
        elements, stored = stages.pairs.elements, stages.pairs.stored
        union, pair = estimate_union(elements, [stored] * ranks), stages.pairs.nbytes / stored
    gathered = (ranks - 1) * stages.nbytes
    blobs = gathered + stages.nbytes
    return Workload(ranks, elements, gradient.nbytes, blobs, gathered, ranks * stored, stored, union, pair)


def _compute_split_cost(once: float, pairs: Pairs, gradient: Gradient, work: Workload) -> ExchangeCost:
    """Compute the cost of the split algorithm that sends the fewest bytes."""
    cost = min((split.cost(work) for split in SPLITS), key=lambda cost: cost.nbytes)
    growth = work.union / pairs.stored
    computing = once + pairs.encode * (1 + growth / work.ranks) + pairs.decode * (1 + growth)
    computing += pairs.scan / work.ranks + gradient.finish
    return ExchangeCost("split", computing, cost.rounds, cost.nbytes, compressed=False)


def _compute_owned_cost(stages: Stages, owned: Owned, gradient: Gradient, ranks: int) -> ExchangeCost:
    """Compute the cost of Ok-Topk, whose pieces have times and bytes of their own."""
    sent = _describe(stages, gradient, ranks)
    work = dataclasses.replace(sent, largest=owned.stored)
    cost = compute_owned_cost(work, stages.nbytes, owned.piece_bytes)
    computing = stages.select + owned.work + ranks * owned.piece + gradient.finish
    return ExchangeCost("ok-topk", computing, cost.rounds, cost.nbytes)


def _compute_factors_cost(stages: Stages, gradient: Gradient, ranks: int) -> ExchangeCost:
    """Compute the cost of PowerSGD: three dense sums of its factors."""
    dense = compute_dense_cost(gradient.scaled(stages.nbytes / gradient.nbytes), ranks)
    return dataclasses.replace(
        dense,
        algorithm="factors",
        computing=dense.computing + stages.encode,
        messages=SUMS * dense.messages,
        compressed=True,
    )


def _compute_cltk_cost(stages: Stages, index_bytes: int, gradient: Gradient, ranks: int) -> ExchangeCost:
    """Compute the cost of CLT-k, whose broadcast takes one segment longer per further rank."""
    fraction, values = (ranks - 1) / ranks, stages.nbytes - index_bytes
    segment = min(index_bytes, compute_chain_segment(index_bytes))
    computing = stages.decode + gradient.finish
    return ExchangeCost(
        "clt-k",
        computing + fraction * gradient.add * values / gradient.nbytes,
        3 * (ranks - 1),
        index_bytes + 2 * fraction * values + (ranks - 2) * segment,
        alone=stages.select + stages.encode,
    )
