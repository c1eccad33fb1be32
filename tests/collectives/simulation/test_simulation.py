"""Simulated ranks: counted bytes, exact clocks, and no deadlocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.communicator import Request
from collectives.simulation.communicator import SimulatedComm


def test_results_are_in_rank_order() -> None:
    assert co.simulate(5, lambda comm: (comm.rank, comm.size)) == [(rank, 5) for rank in range(5)]


def test_point_to_point() -> None:
    """Messages with one source and tag arrive in order, before or after their receives are posted."""

    def fn(comm: SimulatedComm) -> tuple[list[int], list[int], int]:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        early = np.zeros(4, np.uint8)
        requests: list[Request] = [comm.Irecv(early, left, 5)]
        for value in (1, 2, 3):
            requests.append(comm.Isend(np.full(4, 10 * comm.rank + value, np.uint8), right, tag=6))
        requests.append(comm.Isend(np.full(4, 99, np.uint8), right, tag=5))
        late = np.zeros((3, 4), np.uint8)
        requests += [comm.Irecv(row, left, 6) for row in late]
        while not all(request.Test() for request in requests):
            pass
        return early.tolist(), late[:, 0].tolist(), comm.bytes_sent

    for rank, result in enumerate(co.simulate(3, fn)):
        left = (rank - 1) % 3
        assert result == ([99] * 4, [10 * left + value for value in (1, 2, 3)], 16)


def test_a_message_to_oneself_is_free() -> None:
    def fn(comm: SimulatedComm) -> tuple[list[int], int, float]:
        got = np.zeros(8, np.uint8)
        requests = [comm.Isend(np.arange(8, dtype=np.uint8), comm.rank), comm.Irecv(got, comm.rank)]
        assert all(request.Test() for request in requests)
        return got.tolist(), comm.bytes_sent, comm.clock

    assert co.simulate(2, fn, alpha=1, beta=1) == [(list(range(8)), 0, 0.0)] * 2


def test_clock_of_messages() -> None:
    """Messages arrive alpha + beta·m after they left, one after another, while the receiver computes."""

    def fn(comm: SimulatedComm) -> float | list[float]:
        if comm.rank == 0:
            comm.advance(5.0)
            for request in [comm.Isend(np.zeros(100, np.uint8), 1), comm.Isend(np.zeros(50, np.uint8), 1)]:
                assert comm.block([request])
                assert request.Test()
        else:
            comm.advance(1.0)
            times = []
            for size in (100, 50):
                assert comm.block([request := comm.Irecv(np.zeros(size, np.uint8), 0)])
                assert request.Test()
                times.append(comm.clock)
            return times
        return comm.clock

    sender, receiver = co.simulate(2, fn, alpha=3.0, beta=0.5)
    assert sender == 5 + 0.5 * 150
    assert receiver == [5 + 50 + 3, 5 + 50 + 25 + 3]


def test_clock_of_an_allgather() -> None:
    """It takes n-1 rounds of a ring after the last rank has called."""

    def fn(comm: SimulatedComm) -> tuple[float, int]:
        comm.advance(float(comm.rank))
        got = np.zeros(4 * 10, np.uint8)
        request = comm.Iallgather(np.full(10, comm.rank, np.uint8), got)
        assert comm.block([request])
        assert request.Test()
        assert got.reshape(4, 10)[:, 0].tolist() == [0, 1, 2, 3]
        return comm.clock, comm.bytes_sent

    results = co.simulate(4, fn, alpha=1.0, beta=0.1)
    assert max(clock for clock, _ in results) == pytest.approx(3 + 3 * 2.0)
    assert {sent for _, sent in results} == {30}


def test_repeats_itself() -> None:
    def fn(comm: SimulatedComm) -> tuple[list[bytes], float, int, int]:
        channel = co.Channel(comm)
        got = co.allgather_bytes(channel, bytes([comm.rank]) * (30_000 * comm.rank))
        return [x.tobytes() for x in got], comm.clock, comm.bytes_sent, channel.bytes_sent

    first = co.simulate(6, fn, alpha=1e-5, beta=1e-9)
    assert co.simulate(6, fn, alpha=1e-5, beta=1e-9) == first
    assert all(result[2] == result[3] for result in first)


def test_an_exception_ends_the_others_and_names_the_rank() -> None:
    ended: list[int] = []

    def fn(comm: SimulatedComm) -> None:
        try:
            if comm.rank == 2:
                raise KeyError("lost")
            co.allgather_bytes(comm, b"x")
        finally:
            ended.append(comm.rank)

    with pytest.raises(KeyError, match="lost") as info:
        co.simulate(4, fn)
    assert vars(info.value)["__notes__"] == ["raised on simulated rank 2 of 4"]
    assert sorted(ended) == [0, 1, 2]  # rank 3 had not started


@pytest.mark.parametrize("who", [0, 3])
def test_a_rank_that_does_not_come_is_a_timeout(who: int) -> None:
    """Every waiting rank gets it at once."""
    seen: list[str] = []

    def fn(comm: SimulatedComm) -> None:
        if comm.rank == who:
            return
        with pytest.raises(co.Timeout) as info:
            co.allgather_bytes(comm, b"x")
        seen.append(str(info.value))
        with pytest.raises(co.CollectiveError, match="was closed after an earlier error"):
            co.allgather_bytes(comm, b"x")

    co.simulate(4, fn)
    assert len(seen) == 3
    assert all("every rank waits or has ended" in text for text in seen)


def test_polling_for_ever_is_a_timeout() -> None:
    def fn(comm: SimulatedComm) -> None:
        request = comm.Irecv(np.zeros(1, np.uint8), 0)
        while not request.Test():
            pass

    with pytest.raises(co.Timeout, match="no message is in flight"):
        co.simulate(2, fn)


def test_calls_that_do_not_fit_are_found() -> None:
    def fn(comm: SimulatedComm) -> Request:
        out = np.zeros(2, np.uint8)
        if comm.rank:
            return comm.Iallgather(out[:1], out)
        return comm.Iallgatherv(out[:1], [out, ([1, 1], [0, 1])])

    with pytest.raises(RuntimeError, match="Iallgatherv"):
        co.simulate(2, fn)

    def too_long(comm: SimulatedComm) -> None:
        comm.Isend(np.zeros(9, np.uint8), 0)
        comm.Irecv(np.zeros(8, np.uint8), 0).Test()

    with pytest.raises(RuntimeError, match="9 bytes, but its receive buffer has 8"):
        co.simulate(1, too_long)


def test_numpy_settings_are_the_callers() -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        co.simulate(2, lambda comm: np.ones(1) / np.zeros(1))


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 2, "alpha": -1.0}, {"n": 2, "beta": -1.0}], ids=str)
def test_arguments(wrong: Any) -> None:
    with pytest.raises(ValueError):
        co.simulate(fn=lambda comm: None, **wrong)
