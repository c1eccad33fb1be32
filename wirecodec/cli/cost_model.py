"""Cost model of an exchange: seconds computed from a machine's times and a network's bandwidth.

Every rank sends and receives at once, each at the full bandwidth, and every message adds its latency. For n
ranks, f = (n-1)/n, M bytes of a gradient and m bytes of its encoding, the algorithms cost each rank

    algorithm   computing                                             messages   bytes sent
    dense       f·add + finish/n                                      2(n-1)     2f·M
    allgather   select + encode + n·decode + finish                   n-1        (n-1)·m
    decoded     select + encode + decode + the computing of dense     2(n-1)     2f·M
    narrow      the same as decoded                                   2(n-1)     2f·m
    clt-k       select + encode + decode + f·add·v/M                  3(n-1)     i + 2f·v

``dense`` sums the gradient without compression; the others sum encodings. In ``allgather`` each rank receives
all encodings and adds up n of them, its own included. ``decoded`` sums decoded vectors: it never takes less
time than ``dense``, but less than ``allgather`` if there are many ranks. ``narrow`` is for schemes that round
every element to a shorter float: such values can be summed during the exchange. ``clt-k`` is ScaleCom's
method (``collectives.CLTk``): one rank broadcasts its i bytes of indices along a chain, and every rank's
values at these indices, v bytes, are summed like a dense vector.

Compression pays if an algorithm takes less time than ``dense``. On two ranks without latency this is the
condition of the FFT paper (section 3.3, equation 4), which ``published_min_ratio`` computes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Cost",
    "Gradient",
    "Network",
    "Stages",
    "compute_costs",
    "compute_dense_cost",
    "compute_min_ratio",
    "find_fastest",
    "find_paying_bandwidths",
    "published_min_ratio",
]


@dataclass(frozen=True)
class Network:
    """Network between ranks.

    Args:
        ranks: 2 to 2^31 - 1.
        bandwidth: bytes per second that a rank can send while it receives as many.
        latency: seconds per message.

    Raises:
        ValueError: an argument is out of range.

    Examples:
        >>> Network(ranks=8, bandwidth=1.25e9, latency=50e-6).ranks
        8
    """

    ranks: int
    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ValueError(f"ranks is {self.ranks}; an exchange needs 2 ranks or more")
        if self.ranks >= 2**31:  # MPI counts ranks in a C int; larger integers overflow a float
            raise ValueError("ranks must be below 2^31")
        if not 0 < self.bandwidth < math.inf:
            raise ValueError(f"bandwidth is {self.bandwidth!r}; it must be above 0 and finite")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"latency is {self.latency!r}; it must be 0 or more and finite")


@dataclass(frozen=True)
class Gradient:
    """Size of a gradient, and times of dense vectors of this size on one machine.

    Attributes:
        nbytes: M, bytes of all its elements.
        add: seconds to add one such vector to another.
        finish: seconds to allocate a vector of zeros for the sum, and to divide the sum.
    """

    nbytes: int
    add: float = 0.0
    finish: float = 0.0


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
    """

    nbytes: int
    select: float
    encode: float
    decode: float
    summable: bool = False
    index_bytes: int | None = None


@dataclass(frozen=True)
class Cost:
    """Cost of one algorithm for the slowest rank.

    Attributes:
        algorithm: its name in the table above.
        computing: seconds.
        messages: number of messages, one after the other.
        nbytes: bytes sent.
        compressed: whether ``nbytes`` is proportional to the bytes of the encoding.
    """

    algorithm: str
    computing: float
    messages: int
    nbytes: float
    compressed: bool = True

    def seconds(self, network: Network) -> float:
        """Return the seconds of an exchange over a network with as many ranks."""
        return self.fixed_seconds(network.latency) + self.nbytes / network.bandwidth

    def fixed_seconds(self, latency: float) -> float:
        """Return the seconds that no bandwidth shortens: computing, and the latency of all messages."""
        return self.computing + self.messages * latency


def compute_dense_cost(gradient: Gradient, ranks: int) -> Cost:
    """Compute the cost of summing the gradient without compression: reduce-scatter and all-gather."""
    fraction = (ranks - 1) / ranks
    computing = fraction * gradient.add + gradient.finish / ranks
    return Cost("dense", computing, 2 * (ranks - 1), 2 * fraction * gradient.nbytes, compressed=False)


def compute_costs(stages: Stages, gradient: Gradient, ranks: int) -> tuple[Cost, ...]:
    """Compute the costs of the algorithms that can sum the encodings of a scheme."""
    dense = compute_dense_cost(gradient, ranks)
    once = stages.select + stages.encode
    if stages.index_bytes is not None:
        values, fraction = stages.nbytes - stages.index_bytes, (ranks - 1) / ranks
        computing = once + stages.decode + fraction * gradient.add * values / gradient.nbytes
        return (Cost("clt-k", computing, 3 * (ranks - 1), stages.index_bytes + 2 * fraction * values),)
    allgather = Cost(
        "allgather",
        once + ranks * stages.decode + gradient.finish,
        ranks - 1,
        (ranks - 1) * stages.nbytes,
    )
    computing = once + stages.decode + dense.computing
    if stages.summable:
        fraction = (ranks - 1) / ranks
        return allgather, Cost("narrow", computing, dense.messages, 2 * fraction * stages.nbytes)
    return allgather, Cost("decoded", computing, dense.messages, dense.nbytes, compressed=False)


def find_fastest(costs: Sequence[Cost], network: Network) -> Cost:
    """Return the cost of the fewest seconds over this network; the first of several equal ones."""
    return min(costs, key=lambda cost: cost.seconds(network))


def find_paying_bandwidths(
    costs: Sequence[Cost], dense: Cost, latency: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """Find the bandwidths at which an algorithm takes less time than the dense sum.

    Args:
        costs: of the algorithms of a scheme.
        dense: the cost of the dense sum.
        latency: seconds per message.

    Returns:
        Intervals (low, high) in bytes per second, ends excluded, within 0 to inf. They ascend and do not
        overlap. Usually there is one, from 0.
    """
    intervals = sorted(found for cost in costs if (found := _find_interval(cost, dense, latency)))
    union: list[tuple[float, float]] = []
    for low, high in intervals:
        if union and low < union[-1][1]:
            union[-1] = union[-1][0], max(high, union[-1][1])
        else:
            union.append((low, high))
    return tuple(union)


def _find_interval(cost: Cost, dense: Cost, latency: float) -> tuple[float, float] | None:
    """Return the bandwidths at which the gain over ``dense`` is positive; it is linear in 1 / bandwidth."""
    seconds_saved = dense.fixed_seconds(latency) - cost.fixed_seconds(latency)
    bytes_saved = dense.nbytes - cost.nbytes
    if bytes_saved > 0:
        return 0.0, bytes_saved / -seconds_saved if seconds_saved < 0 else math.inf
    if seconds_saved > 0:  # more bytes, but less of everything else
        return -bytes_saved / seconds_saved, math.inf
    return None


def compute_min_ratio(stages: Stages, gradient: Gradient, network: Network) -> float:
    """Compute the ratio M/m above which a scheme with these times pays; inf if it never does."""
    available = compute_dense_cost(gradient, network.ranks).seconds(network)
    ratio = math.inf
    index_bytes = stages.index_bytes and stages.index_bytes * gradient.nbytes // stages.nbytes
    whole = dataclasses.replace(stages, nbytes=gradient.nbytes, index_bytes=index_bytes)
    for cost in compute_costs(whole, gradient, network.ranks):
        seconds = available - cost.fixed_seconds(network.latency)  # that remain for sending
        if cost.compressed and seconds > 0:
            ratio = min(ratio, cost.nbytes / network.bandwidth / seconds)
    return ratio


def published_min_ratio(
    bandwidth: float, *, conversion: float, transform: float, packing: float, selection: float
) -> float:
    """Compute the ratio above which the pipeline of the FFT paper pays (equation 4).

    All arguments have the same unit, such as bytes per second, and count uncompressed bytes. The paper
    assumes that decompression takes as long as compression.

    Args:
        bandwidth: T_comm, of one message between two ranks.
        conversion: T_m, to a shorter float, which is done twice.
        transform: T_f.
        packing: T_p.
        selection: T_s.

    Returns:
        The ratio; inf if no ratio pays.

    Examples:
        >>> published_min_ratio(1, conversion=float("inf"), transform=8, packing=8, selection=float("inf"))
        2.0
    """
    compressing = 2 / conversion + 1 / transform + 1 / packing + 1 / selection
    remaining = 1 - 2 * bandwidth * compressing
    return 1 / remaining if remaining > 0 else math.inf
