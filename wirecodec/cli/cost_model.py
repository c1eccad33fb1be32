"""Cost model of an exchange: seconds computed from a machine's times and a network's bandwidth.

Every rank sends and receives at once, each at the full bandwidth, and every message adds its latency. For n
ranks, f = (n-1)/n, L = ⌈log2 n⌉, M bytes of a gradient, m bytes of its encoding and c = accumulate + select +
encode, the algorithms cost each rank

    algorithm   computing                                             messages     bytes sent
    dense       f·add + finish/n                                      2L           2f·M
    factors     its arithmetic + the computing of dense for m         2L per sum   2f·m
    narrow      c + decode + the computing of dense                   2L           2f·m
    decoded     c + decode + the computing of dense                   2(n-1)       2f·M
    allgather   c + n·decode + finish                                 n-1          (n-1)·m
    split       c + pairs of k and of U/n; add of k and of U; scan/n  2(n-1) + 2L  f·(p + u)
    clt-k       c + decode + finish + f·add·v/M                       3(n-1)       i + 2f·v + chain
    every H     (the computing of an exchange + move) / H             1/H          1/H

``dense`` sums the gradient without compression, in the fewest messages that send no more bytes (recursive
halving and doubling, as in MPI). ``factors`` is PowerSGD, whose factors are summed in the same way.
``narrow`` is for schemes that round every element to a shorter float, which can be summed directly. The
others are the algorithms of ``collectives``. In ``allgather`` each rank adds up n encodings, its own too.
``decoded`` sums decoded vectors. In ``split``, each rank adds up one range of the elements: p bytes of pairs
for its k elements, and u for the union U of independent supports, as pairs, with a bitmap, or dense.
``clt-k`` is ScaleCom's method: one rank selects while the others wait, and broadcasts its i bytes of indices
along a chain of ranks. Every rank's values at these indices, v bytes, are summed like a dense vector.
``every H`` are local updates: an exchange every H steps, which also moves the parameters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from wirecodec.support import estimate_index_bytes, estimate_union

_MIN_SEGMENT, _MAX_SEGMENT, _SEGMENTS = 4096, 60 * 1024, 32  # of CLT-k's broadcast, in bytes
_MIN_SPLIT = 2**15  # bytes of all encodings; collectives gathers fewer


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
class Gradient:
    """Size of a gradient, and times of dense vectors of this size on one machine.

    Attributes:
        nbytes: M, bytes of all its elements.
        add: seconds to add one such vector to another.
        finish: seconds to allocate a vector of zeros for the sum, and to divide the sum.
        move: seconds of local updates beside the exchange: to compute the movement of the parameters, to
            compare the ranks' states, and to apply the mean.
    """

    nbytes: int
    add: float = 0.0
    finish: float = 0.0
    move: float = 0.0

    def scaled(self, factor: float) -> Gradient:
        """Return the sizes and times of a gradient of ``factor`` times the size."""
        return Gradient(
            round(factor * self.nbytes), factor * self.add, factor * self.finish, factor * self.move
        )


@dataclass(frozen=True)
class Pairs:
    """Elements of an encoding as pairs of index and value, which the split algorithms send.

    Attributes:
        elements, stored: d of the gradient, and k of the encoding, 1 or more.
        nbytes: of the pairs.
        encode, decode: seconds to encode them, and to decode and add them.
        scan: seconds to add up and encode a vector of sums, beyond those per stored element.
    """

    elements: int
    stored: int
    nbytes: int
    encode: float
    decode: float
    scan: float

    def scaled(self, factor: float) -> Pairs:
        """Return the pairs of a gradient of ``factor`` times the size."""
        elements, stored, nbytes = (round(factor * n) for n in (self.elements, self.stored, self.nbytes))
        times = factor * self.encode, factor * self.decode, factor * self.scan
        return Pairs(elements, stored, nbytes, *times)


@dataclass(frozen=True)
class Stages:
    """Size of an encoding, and times of a scheme's stages on one machine.

    Attributes:
        nbytes: m, bytes of the encoding.
        select: seconds to select elements, a transform included.
        encode: seconds to encode the selected elements.
        decode: seconds to decode one encoding and add it to a dense vector.
        summable: whether the encoding holds every element as a plain float, so that encodings can be summed.
        index_bytes: i, the part of m that CLT-k broadcasts; None for schemes.
        accumulate: seconds to add the residual and to compute the next one; 0 without feedback.
        pairs: for the split algorithms; None if they are not compared.
        every: H, steps between two exchanges; 1 except for local updates.
    """

    nbytes: int
    select: float
    encode: float
    decode: float
    summable: bool = False
    index_bytes: int | None = None
    accumulate: float = 0.0
    pairs: Pairs | None = None
    every: int = 1


@dataclass(frozen=True)
class Cost:
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

    def spread(self, every: int, move: float) -> Cost:
        """Return the cost per step if this exchange, and ``move`` seconds, happen every few steps."""
        return dataclasses.replace(
            self,
            algorithm=f"{self.algorithm}, every {every}",
            computing=(self.computing + move) / every,
            messages=self.messages / every,
            nbytes=self.nbytes / every,
            alone=self.alone / every,
        )


def compute_sum_cost(
    algorithm: str,
    nbytes: float,
    ranks: int,
    *,
    computing: float = 0.0,
    add: float = 0.0,
    finish: float = 0.0,
    sums: int = 1,
    compressed: bool = True,
) -> Cost:
    """Compute the cost of summing vectors: reduce-scatter and all-gather.

    Args:
        algorithm: its name.
        nbytes: of the vectors.
        ranks: n.
        computing: seconds before and after the sum.
        add, finish: seconds, as of ``Gradient``, for vectors of this size.
        sums: number of sums, one after the other.
        compressed: whether they encode a gradient.
    """
    fraction, rounds = (ranks - 1) / ranks, (ranks - 1).bit_length()  # ⌈log2 n⌉
    computing += fraction * add + finish / ranks
    return Cost(algorithm, computing, 2 * sums * rounds, 2 * fraction * nbytes, compressed)


def compute_dense_cost(gradient: Gradient, ranks: int) -> Cost:
    """Compute the cost of summing the gradient without compression."""
    return compute_sum_cost(
        "dense", gradient.nbytes, ranks, add=gradient.add, finish=gradient.finish, compressed=False
    )


def compute_costs(stages: Stages, gradient: Gradient, ranks: int) -> tuple[Cost, ...]:
    """Compute the costs of the algorithms that can sum the encodings of a scheme."""
    if stages.every > 1:
        costs = compute_costs(dataclasses.replace(stages, every=1), gradient, ranks)
        return tuple(cost.spread(stages.every, gradient.move) for cost in costs)
    if stages.index_bytes is not None:
        return (_compute_cltk_cost(stages, stages.index_bytes, gradient, ranks),)
    dense = compute_dense_cost(gradient, ranks)
    once = stages.accumulate + stages.select + stages.encode
    allgather = Cost(
        "allgather",
        once + ranks * stages.decode + gradient.finish,
        ranks - 1,
        (ranks - 1) * stages.nbytes,
    )
    pairs = stages.pairs if ranks * stages.nbytes >= _MIN_SPLIT else None
    split = () if pairs is None else (_compute_split_cost(stages, pairs, gradient, ranks),)
    computing = once + stages.decode + dense.computing
    if stages.summable:
        nbytes = 2 * (ranks - 1) / ranks * stages.nbytes
        return allgather, *split, Cost("narrow", computing, dense.messages, nbytes)
    decoded = Cost("decoded", computing, 2 * (ranks - 1), dense.nbytes, compressed=False)
    return allgather, *split, decoded


def find_fastest(costs: Sequence[Cost], network: Network) -> Cost:
    """Return the cost of the fewest seconds over this network; the first of several equal ones."""
    return min(costs, key=lambda cost: cost.seconds(network))


def _compute_split_cost(stages: Stages, pairs: Pairs, gradient: Gradient, ranks: int) -> Cost:
    """Compute the cost of the split algorithm that sends the fewest bytes in its second phase."""
    fraction, elements = (ranks - 1) / ranks, pairs.elements
    union = estimate_union(elements, [pairs.stored] * ranks)
    growth, width = union / pairs.stored, gradient.nbytes / elements
    second = min(
        union * (width + estimate_index_bytes(union, elements)),
        union * width + elements / 8,
        gradient.nbytes,
    )
    computing = (
        stages.accumulate
        + stages.select
        + stages.encode
        + pairs.encode * (1 + growth / ranks)
        + pairs.decode * (1 + growth)
        + pairs.scan / ranks
        + gradient.finish
    )
    messages = 2 * (ranks - 1) + 2 * (ranks - 1).bit_length()
    return Cost("split", computing, messages, fraction * (pairs.nbytes + second), compressed=False)


def _compute_cltk_cost(stages: Stages, index_bytes: int, gradient: Gradient, ranks: int) -> Cost:
    """Compute the cost of CLT-k, whose broadcast takes one segment longer per further rank."""
    fraction, values = (ranks - 1) / ranks, stages.nbytes - index_bytes
    segment = min(index_bytes, max(_MIN_SEGMENT, min(_MAX_SEGMENT, index_bytes // _SEGMENTS)))
    computing = stages.accumulate + stages.decode + gradient.finish
    return Cost(
        "clt-k",
        computing + fraction * gradient.add * values / gradient.nbytes,
        3 * (ranks - 1),
        index_bytes + 2 * fraction * values + (ranks - 2) * segment,
        alone=stages.select + stages.encode,
    )
