"""Timeouts name the ranks that are missing, and what they last took part in."""

from __future__ import annotations

import time

import numpy as np
import pytest

import collectives as co
from collectives.agreement import agree
from collectives.agreement.header import Header
from collectives.communicator import Communicator
from collectives.waiting.roll_call import Notice, State, describe_attendance
from tests.collectives.conftest import World, worlds

TIMEOUT = 1.0


def test_attendance_in_words() -> None:
    here = "exchange 3 of headers (allreduce)"
    last = "exchange 2 (allreduce)"
    notices = {
        1: Notice(State.WAITS, here),
        2: Notice(State.GAVE_UP, "exchange 3 of headers (allgather-bytes)"),
        4: Notice(State.CLOSED, "KeyboardInterrupt"),
    }
    ranks, text = describe_attendance(7, 0, here, notices, last)
    assert ranks == [3, 5, 6, 4]
    assert text == (
        "Ranks 3, 5, 6 are missing: they last took part in exchange 2 (allreduce)."
        " Rank 4 closed its channel: KeyboardInterrupt."
        " Rank 2 waits for exchange 3 of headers (allgather-bytes)"
    )
    assert describe_attendance(2, 0, here, {}, "") == (
        [1],
        "Rank 1 is missing: it took part in no exchange before",
    )
    assert describe_attendance(2, 0, here, {1: notices[1]}, last)[0] == []
    late = describe_attendance(2, 0, here, {1: Notice(State.GAVE_UP, here)}, last)
    assert late == ([], "Rank 1 gave up before, so this rank made the call too late")


@pytest.mark.parametrize("text", ["", "ex", "ü" * 200])
def test_notices_have_one_length(text: str) -> None:
    data = Notice(State.WAITS, text).pack()
    assert len(data) == 256
    found = Notice.unpack(data)
    assert found.state == State.WAITS
    assert text.startswith(found.text)
    assert len(found.text) == min(len(text), 127)


@pytest.fixture(params=worlds([3], [3]))
def three(request: pytest.FixtureRequest) -> World:
    """Provide three ranks, simulated and under mpirun."""
    found: World = request.param
    return found


def call(channel: co.Channel) -> bytes:
    return co.allreduce(channel, {"fc.weight": np.ones(10, np.float32)}).popitem()[1].tobytes()


def test_a_timeout_names_the_missing_rank(three: World) -> None:
    """Ranks that arrive later than the first one answer it, and give up with it."""

    def fn(comm: Communicator) -> tuple[tuple[int, ...], str]:
        duplicate = comm if three.simulated else comm.Dup()  # type: ignore[attr-defined]
        channel = co.Channel(duplicate, timeout=TIMEOUT)  # never freed: messages may be in flight on it
        call(channel)
        if comm.rank == 1:
            return (), ""
        if comm.rank == 2 and not three.simulated:
            time.sleep(0.6 * TIMEOUT)
        begin = time.monotonic()
        with pytest.raises(co.Timeout) as info:
            call(channel)
        assert time.monotonic() - begin < TIMEOUT + 2
        return info.value.ranks, str(info.value)

    results = three.run(fn)
    name = "(allreduce of {fc.weight: float32 (10,)})"
    for rank in (0, 2):
        ranks, text = results[rank]
        assert ranks == (1,)
        assert text.startswith(f"rank {rank}: exchange 1 of headers {name} ")
        assert f"Rank 1 is missing: it last took part in exchange 0 {name}." in text
        assert "device" not in text


def test_a_timeout_names_a_rank_in_another_call(three: World) -> None:
    """A rank that waits elsewhere is present."""

    def fn(comm: Communicator) -> tuple[int, ...]:
        duplicate = comm if three.simulated else comm.Dup()  # type: ignore[attr-defined]
        channel = co.Channel(duplicate, timeout=TIMEOUT)
        if comm.rank == 1:
            return ()
        with pytest.raises(co.Timeout, match="no exchange before") as info:
            co.allgather_bytes(channel, b"x") if comm.rank == 2 else call(channel)
        assert ("Rank 2 waits for exchange 0 of headers (allgather-bytes)" in str(info.value)) == (
            comm.rank == 0
        )
        return info.value.ranks

    assert three.run(fn) == [(1,), (), (1,)]


@pytest.mark.mpi(3)
def test_an_interrupted_rank_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do not wait for their deadline, if they wait for headers."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    channel = co.Channel(world.Dup(), timeout=30)
    call(channel)

    class Interrupting(Header):
        @classmethod
        def unpack(cls, data: bytes) -> Header:
            raise KeyboardInterrupt

    error: BaseException | None = None
    begin = time.monotonic()
    try:
        with monkeypatch.context() as patch:
            if world.rank == 1:
                patch.setattr(agree, "Header", Interrupting)
            co.allgather_bytes(channel, b"")  # nobody waits for rank 1 in this call
            call(channel)
    except (KeyboardInterrupt, co.Timeout) as caught:
        error = caught
    seconds = time.monotonic() - begin
    if world.rank == 1:
        assert isinstance(error, KeyboardInterrupt)
    else:
        assert isinstance(error, co.Timeout)
        assert error.ranks == (1,)
        assert "Rank 1 closed its channel: KeyboardInterrupt" in str(error)
        assert "timeout=" not in str(error)
        assert seconds < 10
    world.Barrier()
