"""Fixtures that run one test function on real ranks and on simulated ones.

A test uses ``world``, or ``several`` if it needs two ranks. It passes a function to ``run``, which returns
the results of all ranks, on every rank.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pytest

import collectives as co
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.inputs import SCHEMES, gradient
from tests.conftest import DTYPES
from tests.mpi_launch import Launcher

RANKS = (1, 2, 3, 4, 5, 8)

T = TypeVar("T")


def pytest_configure(config: pytest.Config) -> None:
    launcher = config.pluginmanager.get_plugin("mpi-launch")
    if isinstance(launcher, Launcher):
        launcher.before_launch = _compile_kernels


def _compile_kernels() -> None:
    """Fill Numba's cache on disk once, so that the ranks do not all compile the same kernels."""
    for dtype in DTYPES:
        for scheme in SCHEMES:
            for shape in (0, 1, 5000):
                x = gradient(0, shape, dtype)
                co.simulate(1, partial(co.allreduce, tensor=x, scheme=scheme))


@dataclass
class World:
    """Group of n ranks: under mpirun, this process is one of them; simulated, it runs all of them."""

    n: int
    simulated: bool

    def run(self, fn: Callable[[Communicator], T]) -> list[T]:
        """Run fn(comm) on all ranks, under mpirun on a new communicator; return the results in rank order.

        An exception on one rank fails all ranks.
        """
        if self.simulated:
            return co.simulate(self.n, fn)
        from mpi4py import MPI

        comm = MPI.COMM_WORLD.Dup()
        assert comm.size == self.n
        try:
            mine: tuple[T | None, str] = (fn(comm), "")
        except Exception:
            mine = (None, traceback.format_exc())
        both = MPI.COMM_WORLD.allgather(mine)
        wrong = "\n".join(f"on rank {rank}:\n{text}" for rank, (_, text) in enumerate(both) if text)
        assert not wrong, wrong
        comm.Free()
        return [result for result, _ in both]

    def errors(self, fn: Callable[[Communicator], object]) -> list[co.CollectiveError]:
        """Return the CollectiveErrors that fn(comm) raises, one per rank."""

        def caught(comm: Communicator) -> co.CollectiveError:
            with pytest.raises(co.CollectiveError) as info:
                fn(comm)
            return info.value

        return self.run(caught)


def interrupt_gathers(comm: SimulatedComm) -> None:
    """Make the following all-gathers of this rank raise KeyboardInterrupt."""

    def interrupted(sendbuf: Any, recvbuf: Any) -> Any:
        raise KeyboardInterrupt

    vars(comm)["Iallgather"] = interrupted


SAMPLED_RANKS = (2, 3)
"""Rank counts that run under mpirun by default; the others are sweeps, because ranks take long to start."""


def worlds(simulated: Sequence[int], real: Sequence[int]) -> list[Any]:
    """Make the parameters of a fixture, with these numbers of simulated and real ranks."""

    def marks(n: int) -> list[pytest.MarkDecorator]:
        return [pytest.mark.mpi(n), *([] if n in SAMPLED_RANKS else [pytest.mark.sweep])]

    return [
        *(pytest.param(World(n, True), id=f"simulated-{n}") for n in simulated),
        *(pytest.param(World(n, False), id=f"mpi-{n}", marks=marks(n)) for n in real),
    ]


@pytest.fixture(params=worlds(RANKS, RANKS))
def world(request: pytest.FixtureRequest) -> World:
    """Provide one or more ranks, simulated and under mpirun."""
    found: World = request.param
    return found


@pytest.fixture(params=worlds(RANKS[1:], RANKS[1:]))
def several(request: pytest.FixtureRequest) -> World:
    """Provide two or more ranks, simulated and under mpirun."""
    found: World = request.param
    return found
