"""When compression pays: arithmetic on a machine's times and a network's rates. Nothing is measured here.

Every rank sends and receives at once, each at the full bandwidth, and a message costs its latency beside its
bytes. With n ranks, f = (n-1)/n, M bytes of a gradient and m of its encoding, a rank takes

    way         computing                                             messages   bytes sent
    dense       f·add + finish/n                                      2(n-1)     2f·M
    allgather   select + encode + n·decode + finish                   n-1        (n-1)·m
    decoded     select + encode + decode + what dense takes           2(n-1)     2f·M
    narrow      the same                                              2(n-1)     2f·m

``dense`` sums the gradient as it is; the others a scheme's encodings. In ``allgather`` each rank gets all
encodings and adds up n of them: a rank's own is decoded, too, since the sum is of what others see of it. In
``decoded`` it is the decoded vectors that are summed, all elements of them: never less than ``dense``, but
less than ``allgather`` where ranks are many. ``narrow`` is for schemes that only round every element to a
shorter float: such values can be summed on the way.

A sum is faster by a scheme where its way takes less time than ``dense``. On two ranks without latency that is
the condition of the FFT paper (section 3.3, equation 4), of which ``published_least_ratio`` is the original.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Gradient",
    "Network",
    "Stages",
    "Way",
    "dense_way",
    "fastest",
    "least_ratio",
    "paying",
    "published_least_ratio",
    "ways",
]


@dataclass(frozen=True)
class Network:
    """The number of ranks, bytes a second that each can send while it receives as many, seconds a message."""

    ranks: int
    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ValueError(f"an exchange needs 2 ranks or more, not {self.ranks}")
        if self.ranks >= 2**31:  # MPI counts ranks in a C int, and floats count them exactly
            raise ValueError("an exchange has fewer than 2^31 ranks")
        if not 0 < self.bandwidth < math.inf:
            raise ValueError(f"a bandwidth is above 0 and finite, not {self.bandwidth!r}")
        if not 0 <= self.latency < math.inf:
            raise ValueError(f"a latency is 0 or more and finite, not {self.latency!r}")


@dataclass(frozen=True)
class Gradient:
    """What is to be summed: its bytes, and what a dense vector of its size costs a rank.

    Attributes:
        nbytes: M, of all its elements.
        add: seconds to add one such vector to another.
        finish: seconds to make a vector of zeros to add to, and to divide the sum.
    """

    nbytes: int
    add: float = 0.0
    finish: float = 0.0


@dataclass(frozen=True)
class Stages:
    """What a scheme makes of a gradient on one machine.

    Attributes:
        nbytes: m, of the encoding.
        select: seconds to choose what is sent, a transform included.
        encode: seconds from there to bytes.
        decode: seconds to decode one encoding and add it to a dense vector.
        narrow: whether it holds every element as a plain float, so that encodings can be summed on the way.
    """

    nbytes: int
    select: float
    encode: float
    decode: float
    narrow: bool = False


@dataclass(frozen=True)
class Way:
    """What one way to the sum takes the busiest rank.

    Attributes:
        name: of the table above.
        computing: seconds.
        messages: one after another.
        nbytes: that it sends.
        shrinks: whether those bytes are in proportion to the encoding's.
    """

    name: str
    computing: float
    messages: int
    nbytes: float
    shrinks: bool = True

    def seconds(self, network: Network) -> float:
        """All of it, over a network of as many ranks."""
        return self.waiting(network.latency) + self.nbytes / network.bandwidth

    def waiting(self, latency: float) -> float:
        """What no bandwidth shortens: seconds of computing and of messages' latencies."""
        return self.computing + self.messages * latency


def dense_way(gradient: Gradient, ranks: int) -> Way:
    """Summing the gradient as it is: a reduce-scatter and an all-gather."""
    share = (ranks - 1) / ranks
    computing = share * gradient.add + gradient.finish / ranks
    return Way("dense", computing, 2 * (ranks - 1), 2 * share * gradient.nbytes, shrinks=False)


def ways(stages: Stages, gradient: Gradient, ranks: int) -> tuple[Way, ...]:
    """The ways to the sum of a scheme's encodings."""
    dense = dense_way(gradient, ranks)
    once = stages.select + stages.encode
    gathering = Way(
        "allgather",
        once + ranks * stages.decode + gradient.finish,
        ranks - 1,
        (ranks - 1) * stages.nbytes,
    )
    computing = once + stages.decode + dense.computing
    if stages.narrow:
        share = (ranks - 1) / ranks
        return gathering, Way("narrow", computing, dense.messages, 2 * share * stages.nbytes)
    return gathering, Way("decoded", computing, dense.messages, dense.nbytes, shrinks=False)


def fastest(found: Sequence[Way], network: Network) -> Way:
    """The way of least time over this network; of equal ones the first."""
    return min(found, key=lambda way: way.seconds(network))


def paying(found: Sequence[Way], dense: Way, latency: float = 0.0) -> tuple[tuple[float, float], ...]:
    """The bandwidths at which the fastest of some ways takes less time than ``dense``.

    Args:
        found: the ways.
        dense: what they are held against.
        latency: seconds a message.

    Returns spans (low, high) from 0 to inf, both exclusive, ascending and apart; mostly one that begins at 0.
    """
    spans = sorted(span for way in found if (span := _span(way, dense, latency)))
    joined: list[tuple[float, float]] = []
    for low, high in spans:
        if joined and low < joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return tuple(joined)


def _span(way: Way, dense: Way, latency: float) -> tuple[float, float] | None:
    """In x = 1 / bandwidth what is gained is a line: spared + saved · x."""
    spared = dense.waiting(latency) - way.waiting(latency)
    saved = dense.nbytes - way.nbytes
    if saved > 0:
        return 0.0, saved / -spared if spared < 0 else math.inf
    if spared > 0:  # it sends more, but spends less on everything else
        return -saved / spared, math.inf
    return None


def least_ratio(stages: Stages, gradient: Gradient, network: Network) -> float:
    """The ratio M/m above which a scheme of these times would pay over this network; inf where none would."""
    available = dense_way(gradient, network.ranks).seconds(network)
    least = math.inf
    for way in ways(dataclasses.replace(stages, nbytes=gradient.nbytes), gradient, network.ranks):
        left = available - way.waiting(network.latency)  # for sending
        if way.shrinks and left > 0:
            least = min(least, way.nbytes / network.bandwidth / left)
    return least


def published_least_ratio(
    bandwidth: float, *, conversion: float, transform: float, packing: float, selection: float
) -> float:
    """Equation 4 of the FFT paper: the ratio above which its pipeline pays, inf where none would.

    Args:
        bandwidth: T_comm, of one message between two ranks.
        conversion: T_m, to a shorter float; it is passed twice.
        transform: T_f.
        packing: T_p.
        selection: T_s; all five in the same unit, of uncompressed bytes.

    The paper counts decompression as dear as compression.
    """
    compressing = 2 / conversion + 1 / transform + 1 / packing + 1 / selection
    left = 1 - 2 * bandwidth * compressing
    return 1 / left if left > 0 else math.inf
