"""n ranks in one process: for tests, and for studies at sizes one has no machines for.

The ranks run in the order of their clocks (``collectives.simulation.scheduler``), so a simulation gives the
same result, the same counts and the same clock every time. If every rank waits, each gets a Timeout at once.
If a rank raises, the others end where they are.

``comm.bytes_sent`` counts what a rank puts on the wire. A message to oneself is free. MPI's all-gathers count
as a ring: each rank sends every block but the one of its right neighbour.

``comm.clock``, in seconds, follows the alpha-beta model: a message of m bytes arrives alpha + beta·m after it
left. A rank sends one message after the other (each occupies its link for beta·m); links do not disturb each
other. An all-gather takes the n-1 rounds of a ring. A rank that does nothing but poll lets time pass until
the next of its requests completes. Computation takes no time unless the program says so with
``comm.advance(seconds)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from collectives.errors import Timeout
from collectives.simulation.network import Gathering, Port, Wire
from collectives.simulation.scheduler import Turns

__all__ = ["SimulatedComm", "simulate"]

T = TypeVar("T")
_Octets: TypeAlias = npt.NDArray[np.uint8]


def simulate(n: int, fn: Callable[[SimulatedComm], T], *, alpha: float = 0.0, beta: float = 0.0) -> list[T]:
    """Run fn(comm) on n simulated ranks; the results, in rank order.

    Args:
        n: ranks, at least 1.
        fn: what every rank runs; it may raise.
        alpha: seconds a message takes, however short.
        beta: seconds a byte takes; 8e-9 is 1 Gbit/s.

    Raises what the first rank to fail raised, with a note that names the rank.
    """
    if n < 1:
        raise ValueError(f"n is {n}, but a communicator has at least one rank")
    if alpha < 0 or beta < 0:
        raise ValueError("alpha and beta are times, and cannot be negative")
    turns, wire = Turns(n), Wire(n, alpha, beta)
    return turns.run(lambda rank: fn(SimulatedComm(turns, Port(wire, rank))))


class SimulatedComm:
    """One rank's view of a simulated communicator; satisfies collectives.communicator.Communicator.

    Attributes:
        rank, size: as in MPI.
    """

    def __init__(self, turns: Turns, port: Port) -> None:
        self._turns = turns
        self._port = port
        self._open: list[_Pending] = []  # requests that are not complete
        self._vain = 0  # tests since something last began or completed
        self.rank = port.rank
        self.size = port.wire.n

    @property
    def bytes_sent(self) -> int:
        """Payload bytes this rank put on the wire."""
        return self._port.bytes_sent

    @property
    def clock(self) -> float:
        """Seconds since the start, by the alpha-beta model."""
        return self._port.clock

    def advance(self, seconds: float) -> None:
        """Let time pass on this rank, for a computation."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._port.clock += seconds

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> _Pending:  # noqa: N802 - MPI's names
        """Start to send; the message is copied at once.

        Args:
            buf: a contiguous array.
            dest: a rank, this one included.
            tag: of the message.
        """
        self._turns.check()
        left = self._port.send(_octets(buf).tobytes(), self._other(dest), tag)
        self._turns.news([dest], self.clock)
        return self._opened(_Sent(self, left))

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> _Pending:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array, which may be longer than the message.
            source: a rank, this one included.
            tag: of the message.
        """
        self._turns.check()
        return self._opened(_Receive(self, _octets(buf), self._other(source), tag))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> _Pending:  # noqa: N802
        """Start to gather equal blocks from all ranks."""
        block, out = _octets(sendbuf), _octets(recvbuf)
        if len(out) != self.size * len(block):
            raise ValueError(f"{self.size} blocks of {len(block)} bytes do not fill a buffer of {len(out)}")
        starts = [rank * len(block) for rank in range(self.size)]
        return self._gather("Iallgather", block, out, [len(block)] * self.size, starts)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> _Pending:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [array, (counts, displacements)]."""
        out, (counts, starts) = recvbuf
        return self._gather("Iallgatherv", _octets(sendbuf), _octets(out), counts, starts)

    def block(self, requests: Sequence[_Pending]) -> bool:
        """Let the other ranks run until one of the requests can complete; False where none ever can."""
        while not any(request.due() for request in requests):
            if not self._let_time_pass(requests) and not self._turns.wait(self.rank, self.clock):
                return False
        return True

    def _opened(self, request: _Pending) -> _Pending:
        self._open.append(request)
        self._vain = 0
        return request

    def _poll(self) -> bool:
        """After a test that found nothing; False where no rank can ever go on.

        Only a rank that has tested all it has, and more than once, does nothing but wait.
        """
        self._vain += 1
        if self._vain <= 2 * len(self._open):
            return True
        return self._let_time_pass(self._open) or self._turns.poll(self.rank, self.clock)

    def _let_time_pass(self, requests: Sequence[_Pending]) -> bool:
        """Go to the time at which the next of the requests completes; False where none is known to."""
        before = None
        while True:
            times = [t for request in requests if (t := request.when()) is not None and t > self.clock]
            if not times:
                return False
            if before == min(times):
                self._port.clock = before
                return True
            before = min(times)
            self._turns.until(self.rank, before)

    def _gather(
        self, call: str, block: _Octets, out: _Octets, counts: Sequence[int], starts: Sequence[int]
    ) -> _Pending:
        self._turns.check()
        if len(counts) != self.size or len(block) != counts[self.rank]:
            raise ValueError(
                f"rank {self.rank} contributes {len(block)} bytes to {call}, but counts are {list(counts)}"
            )
        gathering = self._port.gather(call, block.tobytes(), counts)
        self._turns.news(range(self.size) if gathering.done else (), self.clock)
        request = _Gathered(self, gathering, out, list(zip(starts, counts, strict=True)))
        return self._opened(request)

    def _other(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} does not exist: the communicator has {self.size}")
        return rank


class _Pending(ABC):
    """A request. Test lets time pass, and other ranks run, where it finds nothing; so a rank may poll."""

    def __init__(self, comm: SimulatedComm) -> None:
        self._comm = comm
        self._port = comm._port
        self._turns = comm._turns
        self._complete = False

    @abstractmethod
    def when(self) -> float | None:
        """The time at which it completes; None while nobody knows."""

    def take(self) -> None:  # noqa: B027 - most have nothing to do
        """Complete the request."""

    def due(self) -> bool:
        """Whether Test would be True at once."""
        if self._complete:
            return True
        time = self.when()
        return time is not None and time <= self._port.clock

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; True once the operation is complete."""
        self._turns.check()
        comm = self._comm
        if not self.due() and not comm._poll():
            raise Timeout(f"rank {comm.rank}: all ranks poll or wait, and none sends", reason="timeout")
        if not self._complete and self.due():
            self.take()
            self._complete = True
            comm._open.remove(self)
            comm._vain = 0
        return self._complete


class _Sent(_Pending):
    def __init__(self, comm: SimulatedComm, left: float) -> None:
        super().__init__(comm)
        self._left = left

    def when(self) -> float:
        return self._left


class _Receive(_Pending):
    def __init__(self, comm: SimulatedComm, out: _Octets, source: int, tag: int) -> None:
        super().__init__(comm)
        self._out = out
        self._lane = self._port.wire.lanes[source, comm.rank, tag]
        self._number = self._lane.post()

    def when(self) -> float | None:
        message = self._lane.messages.get(self._number)
        return None if message is None else message[1]

    def take(self) -> None:
        data, _ = self._lane.messages.pop(self._number)
        if len(data) > len(self._out):
            raise RuntimeError(f"a message of {len(data)} bytes does not fit a receive of {len(self._out)}")
        self._out[: len(data)] = np.frombuffer(data, np.uint8)


class _Gathered(_Pending):
    def __init__(
        self, comm: SimulatedComm, gathering: Gathering, out: _Octets, places: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(comm)
        self._gathering = gathering
        self._out = out
        self._places = places

    def when(self) -> float | None:
        return self._gathering.times[self._port.rank] if self._gathering.done else None

    def take(self) -> None:
        for rank, (start, count) in enumerate(self._places):
            data = self._gathering.blocks[rank]
            if len(data) != count:
                raise RuntimeError(
                    f"rank {rank} contributed {len(data)} bytes to {self._gathering.call}, not {count}"
                )
            self._out[start : start + count] = np.frombuffer(data, np.uint8)


def _octets(buf: Any) -> _Octets:
    """The bytes of a contiguous array, without a copy."""
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("a buffer must be contiguous")
    return array.reshape(-1).view(np.uint8)
