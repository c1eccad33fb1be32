"""Protocol of communicators, their Channels, and deadlines."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator, Request, check_communicator, has_members
from collectives.simulation.communicator import SimulatedComm
from collectives.waiting.backoff import Backoff, wait_all
from collectives.waiting.board import KeepingBoard, find_board
from tests.collectives.conftest import World, interrupt_gathers
from tests.mpi_processes import end_all, find_processes, rank_environment, require_mpirun


def test_simulated_communicators_satisfy_the_protocol() -> None:
    def fn(comm: SimulatedComm) -> None:
        assert isinstance(comm, Communicator)
        assert isinstance(comm.Isend(b"x", comm.rank), Request)

    co.simulate(2, fn)


def test_a_wrapper_satisfies_the_protocols_by_what_it_forwards() -> None:
    """From Python 3.12 on, ``isinstance`` does not see members that ``__getattr__`` finds."""

    class Wrapper:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    def fn(comm: SimulatedComm) -> None:
        check_communicator(Wrapper(comm))
        board = find_board(comm)
        assert find_board(SimpleNamespace(notices=(wrapped := Wrapper(board)))) is wrapped
        assert not has_members(wrapped, KeepingBoard)
        with pytest.raises(TypeError, match="Wrapper is not a communicator"):
            check_communicator(Wrapper(board))

    co.simulate(2, fn)


@pytest.mark.mpi(2)
def test_mpi4py_satisfies_the_protocol_as_it_is() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for each in (comm, MPI.COMM_SELF, comm.Split(comm.rank), comm.Create_cart([comm.size])):
        assert isinstance(each, Communicator)
    request = comm.Isend(b"x", comm.rank)
    assert isinstance(request, Request)
    got = np.zeros(1, np.uint8)
    wait_all(Backoff(comm, 5, "a message to oneself"), [request, comm.Irecv(got, comm.rank)])
    assert got.tobytes() == b"x"


def test_a_bare_communicator_keeps_its_channel(world: World) -> None:
    def fn(comm: Communicator) -> int:
        channel = co.Channel.of(comm)
        assert co.Channel.of(comm) is channel
        assert co.Channel.of(channel) is channel
        co.allgather_bytes(comm, b"x")
        return channel.sequence

    assert world.run(fn) == [1] * world.n


@pytest.mark.mpi(2)
def test_the_channel_belongs_to_the_communicator_not_to_its_handle() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    channel = co.Channel.of(comm)
    assert co.Channel.of(MPI.Intracomm(comm)) is channel  # a second handle of the same communicator
    other = comm.Dup()
    assert co.Channel.of(other) is not channel
    other.Free()
    comm.Free()


def test_what_is_no_communicator_is_refused() -> None:
    no_communicator: Any = []

    def nested(comm: SimulatedComm) -> None:
        channel: Any = co.Channel(comm)
        co.Channel(channel)

    with pytest.raises(TypeError, match="list is not a communicator"):
        co.Channel(no_communicator)
    with pytest.raises(TypeError, match="Channel is not a communicator"):
        co.simulate(1, nested)
    with pytest.raises(ValueError, match="timeout"):
        co.simulate(1, lambda comm: co.Channel(comm, timeout=0))


class Never:
    """Request that does not complete."""

    def Test(self) -> bool:
        return False


class Place:
    """Communicator without ``block``."""

    rank, size = 1, 2


PLACE: Any = Place()


def test_a_wait_ends_at_its_deadline() -> None:
    start = time.monotonic()
    with pytest.raises(co.Timeout, match=r"rank 1: the moon received nothing for 0\.2 s"):
        wait_all(Backoff(PLACE, 0.2, "the moon"), [Never()])
    assert 0.2 <= time.monotonic() - start < 2


def test_progress_extends_the_deadline() -> None:
    """The timeout bounds silence, not the length of a transfer."""
    start = time.monotonic()

    class At(Never):
        def __init__(self, seconds: float) -> None:
            self.when = start + seconds

        def Test(self) -> bool:
            return time.monotonic() > self.when

    wait_all(Backoff(PLACE, 0.4, "a slow transfer"), [At(0.15 * k) for k in range(1, 5)])
    assert time.monotonic() - start >= 0.6


def test_an_interrupt_closes_the_channel() -> None:
    """The other ranks may be in the exchange already, so this rank must not start another one."""

    def fn(comm: SimulatedComm) -> str:
        interrupt_gathers(comm)
        with pytest.raises(KeyboardInterrupt):
            co.allgather_bytes(comm, b"x")
        with pytest.raises(
            co.CollectiveError, match=r"closed after an earlier error \(KeyboardInterrupt\)"
        ) as info:
            co.allreduce(comm, np.ones(3, np.float32))
        return info.value.reason

    assert co.simulate(1, fn) == ["closed"]


STOPPED = """
import os, signal, sys, time
import collectives as co
from mpi4py import MPI

comm = MPI.COMM_WORLD
size = int(sys.argv[1])
channel = co.Channel(comm, timeout=1.0)
co.allgather_bytes(channel, b"x" * size)
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
start = time.monotonic()
try:
    co.allgather_bytes(channel, b"x" * size)
    verdict = "no error"
except co.Timeout as error:
    verdict = "Timeout" if time.monotonic() - start < 10 else "late"
try:
    co.allgather_bytes(comm, b"")
except co.CollectiveError as error:
    verdict += " then " + error.reason
os.write(1, f"rank {comm.rank}: {verdict}\\n".encode())
time.sleep(60)
"""


def test_a_stopped_rank_is_a_timeout_on_the_others(tmp_path: Path) -> None:
    """No process is left behind, not even the stopped one."""
    prefix = require_mpirun()
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    root = os.fspath(os.path.dirname(os.path.dirname(co.__file__)))
    process = subprocess.Popen(
        [*prefix, "-n", "4", sys.executable, os.fspath(script), "100000"],
        env=rank_environment(tmp_path) | {"PYTHONPATH": root},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        os.set_blocking(process.stdout.fileno(), False)
        said = b""
        deadline = time.monotonic() + 60
        while said.count(b"\n") < 3 and time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(BlockingIOError):
                said += process.stdout.read() or b""
            time.sleep(0.05)
    finally:
        end_all(process, tmp_path)
        process.stdout.close()
    assert sorted(said.decode().splitlines()) == [f"rank {rank}: Timeout then closed" for rank in (0, 2, 3)]
    assert find_processes(tmp_path) == []


def test_small_buffers_are_used_again() -> None:
    def fn(comm: SimulatedComm) -> None:
        channel = co.Channel(comm)
        first = channel.get_buffer(1000)
        assert len(first) == 1000
        assert np.shares_memory(first, channel.get_buffer(500))
        assert len(channel.get_buffer(2000)) == 2000
        large = channel.get_buffer(17 << 20)
        assert len(large) == 17 << 20
        assert not np.shares_memory(large, channel.get_buffer(17 << 20))

    co.simulate(1, fn)


def test_numbers_of_the_last_exchange_and_a_count_that_survives_a_resume() -> None:
    def train(comm: Any) -> None:
        compressor, channel = wc.Compressor("topk(0.1) | rice | raw"), co.Channel(comm)
        gradient = {"w": np.arange(1000, dtype=np.float32)}
        assert co.Channel(comm).last is None
        total = 0.0
        for number in range(3):
            co.allreduce(channel, gradient, compressor)
            last = channel.last
            assert last is not None
            total += last["bytes"]
            assert (last["exchange"], channel.bytes_sent) == (number, total)
            assert 0 < last["encoding"] < last["seconds"]
            assert 0 < last["waiting"] < last["seconds"]
        state = channel.state_dict()
        later = co.Channel(comm)
        later.load_state_dict(state)
        assert later.bytes_sent == total > 0
        with pytest.raises(ValueError, match="bytes_sent"):
            later.load_state_dict({**state, "bytes_sent": np.array(-1)})
        assert later.bytes_sent == total

    co.simulate(2, train)
