"""Simulated communicator: n ranks in one process, for tests and for studies of large networks.

The ranks run in the order of their clocks (``collectives.simulation.scheduler``). So a simulation always has
the same results, counts and clocks. If every rank waits, each of them gets a Timeout at once. If a rank
raises, the others are ended.

``comm.bytes_sent`` counts the bytes that a rank sends to other ranks. MPI's all-gathers count as rings: each
rank sends every block except its right neighbour's.

``comm.clock``, in seconds, follows the alpha-beta model: a message of m bytes arrives alpha + beta·m after it
left. A rank sends one message after another, and each occupies its link for beta·m. Links are independent.
An all-gather takes the n-1 rounds of a ring. If a rank only polls, its clock advances to the time at which
the next of its requests completes. Computation takes no time unless the program calls
``comm.advance(seconds)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from collectives.errors import Timeout
from collectives.simulation.network import AllgatherState, Endpoint, Network
from collectives.simulation.scheduler import Scheduler

T = TypeVar("T")
_ByteArray: TypeAlias = npt.NDArray[np.uint8]


def simulate(n: int, fn: Callable[[SimulatedComm], T], *, alpha: float = 0.0, beta: float = 0.0) -> list[T]:
    """Run a function on simulated ranks in this process.

    Args:
        n: number of ranks, at least 1.
        fn: the function, called with a SimulatedComm on each rank.
        alpha: seconds per message.
        beta: seconds per byte; 8e-9 is 1 Gbit/s.

    Returns:
        The results in rank order.

    Raises:
        ValueError: n is below 1, or alpha or beta is negative.
        BaseException: the exception of the first rank that failed, with a note that names the rank.

    Source:
        The alpha-beta model: Hockney, 1994, The communication challenge for MPP.

    Examples:
        >>> import collectives as co
        >>> co.simulate(2, lambda comm: [len(blob) for blob in co.allgather_bytes(comm, bytes(comm.rank))])
        [[0, 1], [0, 1]]
    """
    if n < 1:
        raise ValueError(f"n is {n}; it must be at least 1")
    if alpha < 0 or beta < 0:
        raise ValueError(f"alpha is {alpha} and beta is {beta}; both must be at least 0")
    scheduler, network = Scheduler(n), Network(n, alpha, beta)
    return scheduler.run(lambda rank: fn(SimulatedComm(scheduler, Endpoint(network, rank))))


class SimulatedComm:
    """Simulated communicator of one rank; it satisfies collectives.communicator.Communicator.

    Attributes:
        rank, size: as in MPI.
    """

    def __init__(self, scheduler: Scheduler, endpoint: Endpoint) -> None:
        self._scheduler = scheduler
        self._endpoint = endpoint
        self._incomplete: list[_SimulatedRequest] = []
        self._idle_tests = 0  # since a request last began or completed
        self.rank = endpoint.rank
        self.size = endpoint.network.n

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent to other ranks."""
        return self._endpoint.bytes_sent

    @property
    def clock(self) -> float:
        """Seconds since the start, by the alpha-beta model."""
        return self._endpoint.clock

    def advance(self, seconds: float) -> None:
        """Advance this rank's clock by the time of a computation."""
        if seconds < 0:
            raise ValueError(f"seconds is {seconds}; it must be at least 0")
        self._endpoint.clock += seconds

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> _SimulatedRequest:  # noqa: N802 - MPI's names
        """Start to send; the message is copied at once.

        Args:
            buf: a contiguous array.
            dest: a rank; this one is allowed.
            tag: of the message.
        """
        self._scheduler.check()
        left = self._endpoint.send(_as_bytes(buf).tobytes(), self._check_rank(dest), tag)
        self._scheduler.notify([dest], self.clock)
        return self._register(_Send(self, left))

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> _SimulatedRequest:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array, which may be longer than the message.
            source: a rank; this one is allowed.
            tag: of the message.
        """
        self._scheduler.check()
        return self._register(_Receive(self, _as_bytes(buf), self._check_rank(source), tag))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> _SimulatedRequest:  # noqa: N802
        """Start to gather equal blocks from all ranks."""
        block, out = _as_bytes(sendbuf), _as_bytes(recvbuf)
        if len(out) != self.size * len(block):
            raise ValueError(
                f"recvbuf has {len(out)} bytes; it must have {self.size * len(block)}: {self.size} blocks of"
                f" {len(block)}"
            )
        starts = [rank * len(block) for rank in range(self.size)]
        return self._gather("Iallgather", block, out, [len(block)] * self.size, starts)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> _SimulatedRequest:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [array, (counts, displacements)]."""
        out, (counts, starts) = recvbuf
        return self._gather("Iallgatherv", _as_bytes(sendbuf), _as_bytes(out), counts, starts)

    def block(self, requests: Sequence[_SimulatedRequest]) -> bool:
        """Run other ranks until one of the requests can complete; return False if none ever can."""
        while not any(request.is_ready() for request in requests):
            if not self._advance_to_next(requests) and not self._scheduler.wait(self.rank, self.clock):
                return False
        return True

    def _register(self, request: _SimulatedRequest) -> _SimulatedRequest:
        self._incomplete.append(request)
        self._idle_tests = 0
        return request

    def _yield_after_test(self) -> bool:
        """Run other ranks if this one only polls; return False if no rank can ever continue.

        A rank only polls if it has tested all its requests more than once.
        """
        self._idle_tests += 1
        if self._idle_tests <= 2 * len(self._incomplete):
            return True
        return self._advance_to_next(self._incomplete) or self._scheduler.yield_after_poll(
            self.rank, self.clock
        )

    def _advance_to_next(self, requests: Sequence[_SimulatedRequest]) -> bool:
        """Advance the clock to the next completion of the requests; return False if none is known."""
        before = None
        while True:
            times = [t for request in requests if (t := request.get_time()) is not None and t > self.clock]
            if not times:
                return False
            if before == min(times):
                self._endpoint.clock = before
                return True
            before = min(times)
            self._scheduler.yield_until(self.rank, before)

    def _gather(
        self, call: str, block: _ByteArray, out: _ByteArray, counts: Sequence[int], starts: Sequence[int]
    ) -> _SimulatedRequest:
        self._scheduler.check()
        if len(counts) != self.size or len(block) != counts[self.rank]:
            raise ValueError(
                f"rank {self.rank}: sendbuf of {call} has {len(block)} bytes, but counts are {list(counts)}"
            )
        state = self._endpoint.join_allgather(call, block.tobytes(), counts)
        self._scheduler.notify(range(self.size) if state.done else (), self.clock)
        request = _Allgather(self, state, out, list(zip(starts, counts, strict=True)))
        return self._register(request)

    def _check_rank(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank is {rank}; it must be 0 to {self.size - 1}")
        return rank


class _SimulatedRequest(ABC):
    """Request of a simulated rank. ``Test`` runs other ranks if the request is incomplete."""

    def __init__(self, comm: SimulatedComm) -> None:
        self._comm = comm
        self._endpoint = comm._endpoint
        self._scheduler = comm._scheduler
        self._complete = False

    @abstractmethod
    def get_time(self) -> float | None:
        """Return the time of completion, or None if it is not known yet."""

    def complete(self) -> None:  # noqa: B027 - a send has nothing to do
        """Deliver the data of the request."""

    def is_ready(self) -> bool:
        """Return whether Test would return True at once."""
        if self._complete:
            return True
        time = self.get_time()
        return time is not None and time <= self._endpoint.clock

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; return True if the operation is complete."""
        self._scheduler.check()
        comm = self._comm
        if not self.is_ready() and not comm._yield_after_test():
            raise Timeout(
                f"rank {comm.rank}: all ranks wait or poll, and no message is in flight", reason="timeout"
            )
        if not self._complete and self.is_ready():
            self.complete()
            self._complete = True
            comm._incomplete.remove(self)
            comm._idle_tests = 0
        return self._complete


class _Send(_SimulatedRequest):
    def __init__(self, comm: SimulatedComm, left: float) -> None:
        super().__init__(comm)
        self._left = left

    def get_time(self) -> float:
        return self._left


class _Receive(_SimulatedRequest):
    def __init__(self, comm: SimulatedComm, out: _ByteArray, source: int, tag: int) -> None:
        super().__init__(comm)
        self._out = out
        self._queue = self._endpoint.network.queues[source, comm.rank, tag]
        self._number = self._queue.post()

    def get_time(self) -> float | None:
        message = self._queue.messages.get(self._number)
        return None if message is None else message[1]

    def complete(self) -> None:
        data, _ = self._queue.messages.pop(self._number)
        if len(data) > len(self._out):
            raise RuntimeError(
                f"a message has {len(data)} bytes, but its receive buffer has {len(self._out)}"
            )
        self._out[: len(data)] = np.frombuffer(data, np.uint8)


class _Allgather(_SimulatedRequest):
    def __init__(
        self, comm: SimulatedComm, state: AllgatherState, out: _ByteArray, places: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(comm)
        self._state = state
        self._out = out
        self._places = places

    def get_time(self) -> float | None:
        return self._state.times[self._endpoint.rank] if self._state.done else None

    def complete(self) -> None:
        for rank, (start, count) in enumerate(self._places):
            data = self._state.blocks[rank]
            if len(data) != count:
                raise RuntimeError(
                    f"rank {rank} sent {len(data)} bytes in {self._state.call}, but counts expect {count}"
                )
            self._out[start : start + count] = np.frombuffer(data, np.uint8)


def _as_bytes(buf: Any) -> _ByteArray:
    """View a contiguous array as bytes."""
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("a buffer is not contiguous; copy it with np.ascontiguousarray")
    return array.reshape(-1).view(np.uint8)
