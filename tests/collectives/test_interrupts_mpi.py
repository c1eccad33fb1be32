"""Interrupts, intercommunicators and freed communicators under a real MPI."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.agreement import agree
from collectives.agreement.header import HEADER_SIZE, Header
from collectives.exchange import session

INTERRUPTED = 3  # the step in which rank 1 is interrupted
TIMEOUT = 1.0


def interrupt_after_headers(monkeypatch: pytest.MonkeyPatch, nbytes: int, times: int) -> list[list[str]]:
    """Gather in six steps; interrupt rank 1 after the headers of a step. Return the outcomes of all ranks."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    channel = co.Channel(world.Dup(), timeout=TIMEOUT)  # never freed: messages may be in flight on it
    seen: list[str] = []
    interrupts = iter(range(times))

    class Interrupting(Header):
        @classmethod
        def unpack(cls, data: bytes) -> Header:
            if next(interrupts, None) is not None:
                raise KeyboardInterrupt
            return Header.unpack(data)

    for step in range(6):
        with monkeypatch.context() as patch:
            if (world.rank, step) == (1, INTERRUPTED):
                patch.setattr(agree, "Header", Interrupting)
            try:
                found = co.allgather_bytes(channel, bytes([65 + world.rank]) * nbytes)
                right = [x.tobytes() for x in found] == [bytes([65 + rank]) * nbytes for rank in range(3)]
                seen.append("right" if right else "wrong")
            except KeyboardInterrupt:
                seen.append("interrupted")
            except co.CollectiveError as error:
                seen.append(error.reason)
    every: list[list[str]] = world.allgather(seen)
    return every


@pytest.mark.mpi(3)
def test_an_interrupt_after_the_headers_gives_nobody_wrong_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 continues with its next step, whose headers must not be received as payloads of this one."""
    every = interrupt_after_headers(monkeypatch, nbytes=5000, times=2)
    others = ["right"] * INTERRUPTED + ["timeout"] + ["closed"] * 2
    assert every == [others, ["right"] * INTERRUPTED + ["interrupted"] + ["closed"] * 2, others]


@pytest.mark.mpi(3)
def test_payloads_behind_headers_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranks have them, so an interrupt loses no step, and the channel is usable."""
    every = interrupt_after_headers(monkeypatch, nbytes=HEADER_SIZE, times=1)
    others = ["right"] * 6
    assert every == [others, ["right"] * INTERRUPTED + ["interrupted"] + ["right"] * 2, others]


@pytest.mark.mpi(3)
def test_all_ranks_hear_of_a_rank_that_cannot_read_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    channel = co.Channel(world.Dup(), timeout=20)
    x = np.ones(1000, np.float32)

    def fails(blob: Any) -> int:
        raise MemoryError("no room")

    begin = time.monotonic()
    with monkeypatch.context() as patch:
        if world.rank == 1:
            patch.setattr(session, "count_stored", fails)
        with pytest.raises(co.CollectiveError, match="rank 1: encoding failed: MemoryError: no room"):
            co.allreduce(channel, x, "topk(0.1) | rice | raw")
    assert time.monotonic() - begin < 15
    assert np.count_nonzero(co.allreduce(channel, x, "topk(0.1) | rice | raw")) == 100
    channel.comm.Free()  # type: ignore[attr-defined]


@pytest.mark.mpi(4)
def test_an_intercommunicator_is_refused() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half: Any = world.Split(world.rank // 2, world.rank)
    inter = half.Create_intercomm(0, world, 2 if world.rank < 2 else 0, 77)
    for use in (co.Channel, lambda comm: co.allreduce(comm, np.ones(40, np.float32))):
        with pytest.raises(TypeError, match=r"intercommunicator.*comm\.Merge\(\)"):
            use(inter)
    merged = inter.Merge()
    total = co.allreduce(merged, np.full(4000, 10.0**world.rank, np.float32), op="sum", algorithm="dense")
    assert total.tolist() == [1111.0] * 4000
    for comm in (merged, inter, half):
        comm.Free()


@pytest.mark.mpi(2)
def test_no_communicator_any_more() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    channel = co.Channel(comm)
    co.allgather_bytes(channel, b"x")
    comm.Free()
    for call in (
        lambda: co.Channel(MPI.COMM_NULL),
        lambda: co.allgather_bytes(MPI.COMM_NULL, b"x"),
        lambda: co.allgather_bytes(comm, b"x"),
        lambda: co.allgather_bytes(channel, b"x"),
        lambda: co.CLTk(0.1).allreduce(channel, np.ones(9, np.float32)),
        lambda: co.similarity(channel, co.CLTk(0.1), np.ones(9, np.float32)),
    ):
        with pytest.raises(ValueError, match=r"MPI\.COMM_NULL"):
            call()
