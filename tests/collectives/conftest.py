"""One test function, on real ranks and on simulated ones.

A test asks for ``world``, or for ``several`` where one rank makes no sense, and gives ``run`` what each rank
is to do; it gets back what all ranks returned, on every rank.
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
    """Fill Numba's cache on disk once, or each of the ranks would compile every kernel for itself."""
    for dtype in DTYPES:
        for scheme in SCHEMES:
            for shape in (0, 1, 5000):
                x = gradient(0, shape, dtype)
                co.simulate(1, partial(co.allreduce, tensor=x, scheme=scheme))


@dataclass
class World:
    """n ranks; under mpirun this process is one of them, simulated it is all of them."""

    n: int
    simulated: bool

    def run(self, fn: Callable[[Communicator], T]) -> list[T]:
        """The results of fn(comm), in rank order; under mpirun, on a new communicator.

        A rank's exception fails all ranks.
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
        """The CollectiveErrors that fn(comm) raises, one on each rank."""

        def caught(comm: Communicator) -> co.CollectiveError:
            with pytest.raises(co.CollectiveError) as info:
                fn(comm)
            return info.value

        return self.run(caught)


def interrupt_gathers(comm: SimulatedComm) -> None:
    """From now on, an all-gather of this rank meets an interrupt."""

    def interrupted(sendbuf: Any, recvbuf: Any) -> Any:
        raise KeyboardInterrupt

    vars(comm)["Iallgather"] = interrupted


SAMPLED_RANKS = (2, 3)
"""Rank counts that run under mpirun by default; the others are sweeps, because ranks take long to start."""


def worlds(simulated: Sequence[int], real: Sequence[int]) -> list[Any]:
    """Parameters of a fixture: so many simulated ranks, and so many under mpirun."""

    def marks(n: int) -> list[pytest.MarkDecorator]:
        return [pytest.mark.mpi(n), *([] if n in SAMPLED_RANKS else [pytest.mark.sweep])]

    return [
        *(pytest.param(World(n, True), id=f"simulated-{n}") for n in simulated),
        *(pytest.param(World(n, False), id=f"mpi-{n}", marks=marks(n)) for n in real),
    ]


@pytest.fixture(params=worlds(RANKS, RANKS))
def world(request: pytest.FixtureRequest) -> World:
    """One rank or more, simulated and under mpirun."""
    found: World = request.param
    return found


@pytest.fixture(params=worlds(RANKS[1:], RANKS[1:]))
def several(request: pytest.FixtureRequest) -> World:
    """Two ranks or more, simulated and under mpirun."""
    found: World = request.param
    return found
