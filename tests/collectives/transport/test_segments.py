"""Segments: their sizes, no deadlocks between rounds, and no segment sent before it has arrived."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.communicator import Communicator
from collectives.simulation.communicator import SimulatedComm
from collectives.transport.allgather import allgather_ragged
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.broadcast import broadcast
from collectives.transport.reduce import sum_dense
from collectives.transport.segments import (
    MAX_IN_FLIGHT,
    MAX_SEGMENT,
    SegmentList,
    compute_segment_size,
    count_segments,
    make_send_limit,
    transfer,
)
from collectives.transport.weights import Weights
from tests.collectives.conftest import World
from tests.collectives.inputs import bits


class Done:
    def Test(self) -> bool:
        return True


class Endless:
    """Communicator that completes all requests at once, and records the largest message."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.received: list[int] = []

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Done:
        self.sent.append(len(buf))
        return Done()

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Done:
        self.received.append(len(buf))
        return Done()

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Done:
        raise AssertionError("a transfer gathers nothing")

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Done:
        raise AssertionError("a transfer gathers nothing")


def test_more_bytes_than_mpi_can_count() -> None:
    """Of blocks above 2^31 and 2^32 bytes, every message stays below the eager limit."""
    blocks = [np.broadcast_to(np.uint8(0), (size,)) for size in (2**31 + 5, 2**32 + 1)]
    comm = Endless()
    transfer(
        co.Channel(comm),
        SegmentList.from_blocks([(1, blocks[0])]),
        SegmentList.from_blocks([(1, block) for block in blocks]),
        make_send_limit([blocks[0], blocks[0][:0]], blocks),
        "a test",
    )
    assert sum(comm.received) == 2**31 + 5
    assert sum(comm.sent) == 2**31 + 2**32 + 6
    assert max(comm.sent + comm.received) == MAX_SEGMENT < 2**16


@pytest.mark.parametrize("nbytes", [1, 9, MAX_SEGMENT, MAX_SEGMENT + 1, 4 * MAX_SEGMENT + 7, 2**33 + 1])
def test_equal_segments_are_no_more_than_there_must_be(nbytes: int) -> None:
    segment = compute_segment_size(nbytes)
    assert count_segments(nbytes, segment) == count_segments(nbytes)
    assert segment <= MAX_SEGMENT
    assert nbytes - segment * (count_segments(nbytes) - 1) > segment - count_segments(nbytes)
    assert count_segments(nbytes, compute_segment_size(nbytes, 3)) >= min(3, nbytes)


def test_blocks_in_turn() -> None:
    """Each block contributes a segment in turn; the longest has more at the end."""
    blocks = [
        (5, np.arange(10, dtype=np.uint8)),
        (3, np.arange(3, dtype=np.uint8)),
        (4, np.empty(0, np.uint8)),
    ]
    side = SegmentList.interleave(blocks, 4)
    found = [(rank, segment.tolist()) for rank, segment in side.segments]
    assert found == [(5, [0, 1, 2, 3]), (3, [0, 1, 2]), (5, [4, 5, 6, 7]), (5, [8, 9])]
    assert side.count == len(found)


def test_rounds_of_very_different_lengths_end() -> None:
    """Rank 0 sends 20 times MAX_IN_FLIGHT segments to rank 1, and rank 2 waits for a later message."""
    long, short = 20 * MAX_IN_FLIGHT * MAX_SEGMENT, 1000
    sizes = [[0, long, short], [short, 0, 0], [long, short, 0]]

    def fn(comm: Communicator) -> bool:
        mine = [np.full(size, 10 * comm.rank + to, np.uint8) for to, size in enumerate(sizes[comm.rank])]
        found = alltoall_ragged(co.Channel(comm), mine, [row[comm.rank] for row in sizes])
        return all(
            len(block) == sizes[source][comm.rank] and (block == 10 * source + comm.rank).all()
            for source, block in enumerate(found)
        )

    assert co.simulate(3, fn) == [True] * 3


def test_blocks_of_very_different_lengths_go_around() -> None:
    counts = [3 * MAX_IN_FLIGHT * MAX_SEGMENT + 7, 0, 11, MAX_SEGMENT]

    def fn(comm: Communicator) -> bool:
        block = np.full(counts[comm.rank], comm.rank + 1, np.uint8)
        found = allgather_ragged(co.Channel(comm), block, counts)
        return [len(one) for one in found] == counts and all(
            (one == rank + 1).all() for rank, one in enumerate(found)
        )

    assert co.simulate(4, fn) == [True] * 4


@pytest.mark.parametrize(("dtype", "segments"), [("float16", 0.3), ("float32", 2.5), ("float64", 1)])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_sums_are_those_in_rank_order(n: int, dtype: str, segments: float) -> None:
    """A range may be a part of a segment or several segments."""
    _check_sums(World(n, simulated=True), dtype, segments)


def test_sums_of_many_ranks_with_little_each() -> None:
    """Pieces arrive from all ranks at once, in any order."""
    _check_sums(World(24, simulated=True), "float32", 0.1)


def test_sums_of_more_than_may_be_under_way() -> None:
    _check_sums(World(3, simulated=True), "float32", 2.5 * MAX_IN_FLIGHT)


def _check_sums(several: World, dtype: str, segments: float) -> None:
    n = several.n
    size = int(segments * MAX_SEGMENT * n / np.dtype(dtype).itemsize) + 3
    vectors = [np.random.default_rng(rank).standard_normal(size).astype(dtype) for rank in range(n)]
    total = np.zeros(size, np.promote_types(dtype, np.float32))
    for vector in vectors:
        total += vector
    expected = bits((total / total.dtype.type(n)).astype(dtype))

    def fn(comm: Communicator) -> bool:
        before = vectors[comm.rank].copy()
        total = sum_dense(co.Channel(comm), vectors[comm.rank], Weights(n))
        return bits(total) == expected and bits(vectors[comm.rank]) == bits(before)

    assert several.run(fn) == [True] * n


def test_a_sum_leaves_while_its_range_is_still_coming_in() -> None:
    """On the simulated clock, a sum takes the time of its bytes, within three messages."""
    n, size, beta = 4, 40 * MAX_SEGMENT, 8e-9

    def fn(comm: SimulatedComm) -> float:
        begin = comm.clock
        sum_dense(co.Channel(comm), np.ones(size // 4, np.float32), Weights())
        return comm.clock - begin

    taken = max(co.simulate(n, fn, alpha=1e-5, beta=beta))
    assert taken < 2 * (n - 1) / n * size * beta + 3 * (MAX_SEGMENT * beta + 1e-5)


def test_a_sum_may_be_given_its_place() -> None:
    """It then allocates only a buffer for segments in flight, for vectors of any length."""
    x = np.ones(10_000_000, np.float32)
    out = np.zeros_like(x)
    channel = co.Channel(Endless())
    tracemalloc.start()
    try:
        assert sum_dense(channel, x, Weights(), out) is out
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_IN_FLIGHT * MAX_SEGMENT < out.nbytes / 10
    finally:
        tracemalloc.stop()

    def fn(comm: Communicator) -> list[bool]:
        """Sum vectors below and above the size at which segments begin, and in half precision."""
        found = []
        for vector in (np.ones(9, np.float32), np.ones(99_999, np.float32), np.ones(99_999, np.float16)):
            place = np.zeros_like(vector)
            same = sum_dense(co.Channel(comm), vector, Weights(), place) is place
            found.append(same and bool((place == comm.size).all()))
        return found

    assert co.simulate(3, fn) == [[True] * 3] * 3


def test_a_broadcast_keeps_all_links_busy() -> None:
    n, size, beta = 8, 100 * MAX_SEGMENT, 8e-9

    def fn(comm: SimulatedComm) -> float:
        block = np.ones(size, np.uint8) if comm.rank == 3 else np.empty(0, np.uint8)
        broadcast(co.Channel(comm), block, size, 3)
        return comm.clock

    taken = max(co.simulate(n, fn, alpha=1e-5, beta=beta))
    assert taken < size * beta + (n - 2) * (MAX_SEGMENT * beta + 1e-5) + 2e-5
