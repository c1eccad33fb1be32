"""allgather_bytes returns each rank's bytes, for lengths from 0 to many segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.agreement.header import HEADER_SIZE
from collectives.channel import ByteArray
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from collectives.transport.segments import MAX_IN_FLIGHT, MAX_SEGMENT, MIN_SEGMENTED
from tests.collectives.conftest import World

LENGTHS: dict[str, Callable[[int, int], int]] = {
    "empty": lambda rank, n: 0,
    "one empty": lambda rank, n: 0 if rank == n // 2 else 100 + rank,
    "one full": lambda rank, n: 200_000 if rank == n - 1 else 0,
    "short": lambda rank, n: 1,
    "ragged": lambda rank, n: 37 * rank * rank + 1,
    "just native": lambda rank, n: MIN_SEGMENTED // n - 1,
    "just ring": lambda rank, n: -(-MIN_SEGMENTED // n),
    "one segment": lambda rank, n: MAX_SEGMENT,
    "segment and a byte": lambda rank, n: MAX_SEGMENT + (rank % 2),
    "ragged segments": lambda rank, n: MAX_SEGMENT * rank + rank,
    "a megabyte": lambda rank, n: 1 << 20,
    "more than are in flight": lambda rank, n: (MAX_IN_FLIGHT + 6) * MAX_SEGMENT + 1 if rank == 0 else 9,
}


def block(rank: int, length: int) -> ByteArray:
    return np.random.default_rng([3, rank]).integers(0, 256, length, np.uint8)


@pytest.mark.sampled
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_every_rank_gets_every_block(world: World, lengths: Callable[[int, int], int]) -> None:
    expected = [block(rank, lengths(rank, world.n)) for rank in range(world.n)]

    def check(comm: Communicator) -> list[bytes]:
        got = co.allgather_bytes(comm, expected[comm.rank])
        assert [x.dtype for x in got] == [np.uint8] * world.n
        return [x.tobytes() for x in got]

    assert world.run(check) == [[x.tobytes() for x in expected]] * world.n


def test_any_buffer(world: World) -> None:
    def check(comm: Communicator) -> list[list[bytes]]:
        given: tuple[Any, ...] = (
            b"bytes",
            bytearray(b"bytearray"),
            memoryview(b""),
            np.arange(3, dtype="<u2"),
            np.zeros((2, 0)),
        )
        return [[x.tobytes() for x in co.allgather_bytes(comm, one)] for one in given]

    expected = [b"bytes", b"bytearray", b"", b"\0\0\1\0\2\0", b""]
    assert world.run(check) == [[[one] * world.n for one in expected]] * world.n


@pytest.mark.sampled
@pytest.mark.parametrize(
    "wrong", [1.5, None, "text", np.array([object()])], ids=["float", "None", "str", "objects"]
)
def test_no_buffer_is_reported_by_all(world: World, wrong: Any) -> None:
    odd = world.n - 1
    errors = world.errors(lambda comm: co.allgather_bytes(comm, wrong if comm.rank == odd else b"good"))
    assert len({str(error) for error in errors}) == 1
    assert (errors[0].ranks, errors[0].reason) == ((odd,), "argument")
    assert f"rank {odd}: wrong argument: TypeError" in str(errors[0])


def test_bytes_sent(world: World) -> None:
    """Headers and payloads count as rings: all blocks except the right neighbour's."""
    lengths = [1000 * (rank + 1) for rank in range(world.n)]

    def check(comm: Communicator) -> int:
        channel = co.Channel(comm)
        co.allgather_bytes(channel, bytes(lengths[comm.rank]))
        co.allgather_bytes(channel, bytes(100 * lengths[comm.rank]))
        if isinstance(comm, SimulatedComm):
            assert comm.bytes_sent == channel.bytes_sent
        return channel.bytes_sent

    n = world.n
    headers = 2 * HEADER_SIZE * (n - 1)
    sent = [0] if n == 1 else [headers + 101 * (sum(lengths) - lengths[(r + 1) % n]) for r in range(n)]
    assert world.run(check) == sent
