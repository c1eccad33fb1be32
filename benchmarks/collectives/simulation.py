"""Simulation of bytes and times for up to 128 ranks, with the alpha-beta model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.collectives.cases import Case
from collectives.transport.allgather import allgather_concatenated
from collectives.transport.broadcast import broadcast
from collectives.transport.reduce import sum_dense
from collectives.transport.weights import Weights

__all__ = ["ALPHA", "BETA", "CASE", "METHODS", "RANKS", "Point", "simulate_methods"]

RANKS = (2, 4, 8, 16, 32, 64, 128)
CASE = Case(500_000, 0.01)  # large enough that no sum uses MPI's own all-reduce
ALPHA, BETA = 5e-5, 8e-9  # 50 µs per message, 1 Gbit/s
METHODS = ("CLT-k", "allgather", "dense")


@dataclass(frozen=True)
class Point:
    """Communication of one method at one number of ranks.

    Attributes:
        method, ranks: of the simulation.
        nbytes: mean bytes that a rank sends.
        seconds: on the simulated clock.
    """

    method: str
    ranks: int
    nbytes: float
    seconds: float


def simulate_methods(
    ranks: Sequence[int] = RANKS, case: Case = CASE, step: Callable[[str], None] = lambda name: None
) -> list[Point]:
    """Simulate every method at every number of ranks.

    Args:
        ranks: numbers of ranks.
        case: the data to exchange.
        step: called with the name of each simulation before it starts.
    """
    support = case.support(0)
    values = np.random.default_rng(0).random(support.size, np.float32)
    blob = wc.encode(wc.SparseTensor(support, values, (case.elements,)), "nonzero | rice | raw")
    ones = wc.SparseTensor(support, np.ones(support.size, np.float32), (case.elements,))
    indices = wc.encode(ones, "nonzero | auto-index | mean")
    dense = np.ones(case.elements, np.float32)

    def exchange(channel: co.Channel, method: str) -> None:
        if method == "CLT-k":
            broadcast(channel, indices, len(indices), 0)
            sum_dense(channel, values, Weights(channel.size))
        elif method == "allgather":
            allgather_concatenated(channel, blob, [len(blob)] * channel.size)
        else:
            sum_dense(channel, dense, Weights())

    points = []
    for n in ranks:
        for method in METHODS:
            step(f"simulation, n = {n}: {method}")

            def run(comm: Any, method: str = method) -> tuple[int, float]:
                exchange(co.Channel(comm), method)
                return comm.bytes_sent, comm.clock

            found = co.simulate(n, run, alpha=ALPHA, beta=BETA)
            mean = sum(nbytes for nbytes, _ in found) / n
            points.append(Point(method, n, mean, max(clock for _, clock in found)))
    return points
