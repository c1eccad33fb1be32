"""Bytes a rank against the number of ranks, up to 128, and the time they take by the alpha-beta model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.collectives.workload import Case
from collectives.chain import broadcast
from collectives.ring import allgather_joined
from collectives.simulate import SimulatedComm
from collectives.sums import sum_dense
from wirecodec.arrays import as_bytes

__all__ = ["ALPHA", "BETA", "CASE", "METHODS", "RANKS", "Point", "simulated"]

RANKS = (2, 4, 8, 16, 32, 64, 128)
CASE = Case(500_000, 0.01)  # from here on no sum takes the native path
ALPHA, BETA = 5e-5, 8e-9  # 50 µs a message, 1 Gbit/s
METHODS = ("CLT-k", "allgather", "dense")


@dataclass(frozen=True)
class Point:
    """One method at one number of ranks, communication alone.

    Attributes:
        method, ranks: which.
        nbytes: that a rank sends on average.
        seconds: on the simulated clock.
    """

    method: str
    ranks: int
    nbytes: float
    seconds: float


def simulated(
    ranks: Sequence[int] = RANKS, case: Case = CASE, step: Callable[[str], None] = lambda name: None
) -> list[Point]:
    """Every method at every number of ranks.

    Args:
        ranks: how many.
        case: what they exchange.
        step: called with a name before each.
    """
    where = case.support(0)
    values = np.random.default_rng(0).random(where.size, np.float32)
    blob = as_bytes(wc.encode(wc.SparseTensor(where, values, (case.elements,)), "nonzero | rice | raw"))
    ones = wc.SparseTensor(where, np.ones(where.size, np.float32), (case.elements,))
    indices = as_bytes(wc.encode(ones, "nonzero | auto-index | mean"))
    dense = np.ones(case.elements, np.float32)

    def exchange(channel: co.Channel, method: str) -> None:
        if method == "CLT-k":
            broadcast(channel, indices, len(indices), 0)
            sum_dense(channel, values, channel.size)
        elif method == "allgather":
            allgather_joined(channel, blob, [len(blob)] * channel.size)
        else:
            sum_dense(channel, dense, 1)

    points = []
    for n in ranks:
        for method in METHODS:
            step(f"simulated, n = {n}: {method}")

            def run(comm: SimulatedComm, method: str = method) -> tuple[int, float]:
                exchange(co.Channel(comm), method)
                return comm.bytes_sent, comm.clock

            found = co.simulate(n, run, alpha=ALPHA, beta=BETA)
            mean = sum(nbytes for nbytes, _ in found) / n
            points.append(Point(method, n, mean, max(clock for _, clock in found)))
    return points
