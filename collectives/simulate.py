"""n ranks in one process: for tests, and for studies at sizes one has no machines for.

The ranks take turns (``collectives.turns``), so a simulation gives the same result, the same counts and the
same clock every time. When every rank waits, each of them gets a Timeout at once. When a rank raises, the
others are ended where they are.

``comm.bytes_sent`` counts what a rank puts on the wire. A message to oneself is free. MPI's all-gathers count
as a ring: each rank sends every block but the one of its right neighbour.

``comm.clock``, in seconds, follows the alpha-beta model: a message of m bytes arrives alpha + beta·m after it
left. A rank sends one message after the other (each occupies its link for beta·m); links do not disturb each
other. An all-gather takes the n-1 rounds of a ring. Computation takes no time unless the program says so with
``comm.advance(seconds)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from collectives.errors import Timeout
from collectives.turns import Turns
from collectives.wire import Gathering, Port, Wire

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
        self._turns.news([dest])
        return _Sent(self, left)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> _Pending:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array, which may be longer than the message.
            source: a rank, this one included.
            tag: of the message.
        """
        self._turns.check()
        return _Receive(self, _octets(buf), self._other(source), tag)

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
        while not any(request.ready() for request in requests):
            if not self._turns.wait(self.rank):
                return False
        return True

    def _gather(
        self, call: str, block: _Octets, out: _Octets, counts: Sequence[int], starts: Sequence[int]
    ) -> _Pending:
        self._turns.check()
        if len(counts) != self.size or len(block) != counts[self.rank]:
            raise ValueError(
                f"rank {self.rank} contributes {len(block)} bytes to {call}, but counts are {list(counts)}"
            )
        gathering = self._port.gather(call, block.tobytes(), counts)
        self._turns.news(range(self.size) if gathering.done else ())
        return _Gathered(self, gathering, out, list(zip(starts, counts, strict=True)))

    def _other(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} does not exist: the communicator has {self.size}")
        return rank


class _Pending(ABC):
    """A request. Test lets other ranks run where it finds nothing, so that a rank may poll as under MPI."""

    def __init__(self, comm: SimulatedComm) -> None:
        self._port = comm._port
        self._turns = comm._turns
        self._complete = False

    @abstractmethod
    def ready(self) -> bool:
        """Whether Test would be True."""

    @abstractmethod
    def take(self) -> float:
        """Complete the request; the time at which it completed."""

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; True once the operation is complete."""
        self._turns.check()
        rank = self._port.rank
        if not self._complete and not self.ready() and not self._turns.poll(rank):
            raise Timeout(f"rank {rank}: all ranks poll or wait, and none sends", reason="timeout")
        if not self._complete and self.ready():
            self._port.clock = max(self._port.clock, self.take())
            self._complete = True
        return self._complete


class _Sent(_Pending):
    def __init__(self, comm: SimulatedComm, left: float) -> None:
        super().__init__(comm)
        self._left = left

    def ready(self) -> bool:
        return True

    def take(self) -> float:
        return self._left


class _Receive(_Pending):
    def __init__(self, comm: SimulatedComm, out: _Octets, source: int, tag: int) -> None:
        super().__init__(comm)
        self._out = out
        self._lane = self._port.wire.lanes[source, comm.rank, tag]
        self._number = self._lane.post()

    def ready(self) -> bool:
        return self._complete or self._number in self._lane.messages

    def take(self) -> float:
        data, arrival = self._lane.messages.pop(self._number)
        if len(data) > len(self._out):
            raise RuntimeError(f"a message of {len(data)} bytes does not fit a receive of {len(self._out)}")
        self._out[: len(data)] = np.frombuffer(data, np.uint8)
        return arrival


class _Gathered(_Pending):
    def __init__(
        self, comm: SimulatedComm, gathering: Gathering, out: _Octets, places: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(comm)
        self._gathering = gathering
        self._out = out
        self._places = places

    def ready(self) -> bool:
        return self._gathering.done

    def take(self) -> float:
        for rank, (start, count) in enumerate(self._places):
            data = self._gathering.blocks[rank]
            if len(data) != count:
                raise RuntimeError(
                    f"rank {rank} contributed {len(data)} bytes to {self._gathering.call}, not {count}"
                )
            self._out[start : start + count] = np.frombuffer(data, np.uint8)
        return self._gathering.times[self._port.rank]


def _octets(buf: Any) -> _Octets:
    """The bytes of a contiguous array, without a copy."""
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("a buffer must be contiguous")
    return array.reshape(-1).view(np.uint8)
