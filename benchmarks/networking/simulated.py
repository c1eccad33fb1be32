"""Bytes a rank against the number of ranks, up to 128, and the time they take by the alpha-beta model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import collectives as co
from benchmarks.networking.cases import Case
from collectives.communicator import Communicator
from collectives.simulate import SimulatedComm

__all__ = ["ALPHA", "BETA", "CASE", "METHODS", "RANKS", "Point", "simulated"]

RANKS = (2, 4, 8, 16, 32, 64, 128)
CASE = Case(200_000, 0.01)
ALPHA, BETA = 5e-5, 8e-9  # 50 µs a message, 1 Gbit/s


@dataclass(frozen=True)
class Point:
    """One method at one number of ranks.

    Attributes:
        method, ranks: which.
        nbytes: that a rank sends on average, without the headers' 64 bytes a rank.
        headers: bytes that a rank sends of these.
        seconds: on the simulated clock, computing nothing.
    """

    method: str
    ranks: int
    nbytes: float
    headers: int
    seconds: float


def _summed(comm: Communicator, case: Case, algorithm: str) -> None:
    x = case.gradient(comm.rank)
    co.allreduce(comm, x, f"topk({case.density}) | rice | raw", algorithm=algorithm)


def _cltk(comm: Communicator, case: Case) -> None:
    co.CLTk(case.density).allreduce(comm, case.gradient(comm.rank))


METHODS: dict[str, Callable[[Communicator, Case], None]] = {
    "CLT-k": _cltk,
    "allgather": partial(_summed, algorithm="allgather"),
    "split-pairs": partial(_summed, algorithm="split-pairs"),
    "dense": partial(_summed, algorithm="dense"),
}


def simulated(
    ranks: Sequence[int] = RANKS, case: Case = CASE, step: Callable[[str], None] = lambda name: None
) -> list[Point]:
    """Every method at every number of ranks.

    Args:
        ranks: how many.
        case: what they exchange.
        step: called with a name before each.
    """
    points = []
    for n in ranks:
        for name, method in METHODS.items():
            step(f"simulated, n = {n}: {name}")

            def run(comm: SimulatedComm, method: Callable[..., None] = method) -> tuple[int, float]:
                method(comm, case)
                return comm.bytes_sent, comm.clock

            found = co.simulate(n, run, alpha=ALPHA, beta=BETA)
            headers = 64 * (n - 1) * (2 if name.startswith("split") else 1)
            mean = sum(nbytes for nbytes, _ in found) / n
            points.append(Point(name, n, mean - headers, headers, max(clock for _, clock in found)))
    return points
