"""n ranks in one process: for tests, and for studies at sizes one has no machines for.

Each rank is a thread, but only one of them runs at a time: the turn passes on when a rank waits, in rank
order, so a simulation gives the same result, the same counts and the same clock every time. When every
rank waits, none can ever go on: each of them gets a Timeout at once. When a rank raises, the others are
ended where they are.

Bytes: `comm.bytes_sent` counts what a rank puts on the wire. A message to oneself is free. MPI's
    all-gathers count as a ring:
each rank sends every block but the one of its right neighbour (for equal blocks, n-1 of them).

Time: `comm.clock`, in seconds, follows the alpha-beta model: a message of m bytes arrives alpha + beta·m
    after it left. A rank sends one
message after the other (each occupies its link for beta·m); links do not disturb each other. An
all-gather takes the n-1 rounds of a ring. Computation takes no time unless the program says so with
`comm.advance(seconds)`.
"""

from __future__ import annotations

import contextvars
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from collectives.channel import ring_bytes
from collectives.errors import Timeout

__all__ = ["SimulatedComm", "simulate"]

T = TypeVar("T")


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
    world = _World(n, alpha, beta)
    results: dict[int, T] = {}

    def run(comm: SimulatedComm) -> None:
        try:
            world.turns[comm.rank].acquire()
            world.check()
            results[comm.rank] = fn(comm)
        except _Ended:
            pass
        except BaseException as error:
            world.fail(comm.rank, error)
        finally:
            world.leave(comm.rank)

    threads = [
        # A context of its own, as a copy: NumPy's error state is the caller's on every rank.
        threading.Thread(
            target=contextvars.copy_context().run,
            args=(run, SimulatedComm(world, rank)),
            name=f"rank {rank}",
            daemon=True,
        )
        for rank in range(n)
    ]
    for thread in threads:
        thread.start()
    world.turns[0].release()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # an interrupt: the ranks end at their next communication
        world.fail(-1, error)
        raise
    if world.failure is not None:
        rank, failure = world.failure
        _note(failure, f"raised on simulated rank {rank} of {n}")
        raise failure
    return [results[rank] for rank in range(n)]


class SimulatedComm:
    """One rank's view of a simulated communicator; satisfies collectives.communicator.Communicator.

    Attributes:
        rank, size: as in MPI.
        bytes_sent: payload bytes this rank put on the wire.
        clock: seconds since the start, by the alpha-beta model.
    """

    def __init__(self, world: _World, rank: int) -> None:
        self._world = world
        self._link_free = 0.0  # when the last message will have left
        self._collectives = 0
        self.rank = rank
        self.size = world.n
        self.bytes_sent = 0
        self.clock = 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass on this rank, for a computation."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self.clock += seconds

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> _Pending:  # noqa: N802 - MPI's names
        """Start to send a contiguous array; it is copied at once."""
        self._world.check()
        data = _octets(buf).tobytes()
        arrival = left = self.clock
        if self._other(dest) != self.rank:
            self.bytes_sent += len(data)
            left = max(self.clock, self._link_free) + self._world.beta * len(data)
            self._link_free = left
            arrival = left + self._world.alpha
        self._world.messages[self.rank, dest, tag].append((data, arrival))
        self._world.polls = 0
        self._world.wake(dest)
        return _Sent(self, left)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> _Pending:  # noqa: N802
        """Start to receive into a contiguous array, which may be longer than the message."""
        self._world.check()
        return _Receive(self, _octets(buf), (self._other(source), self.rank, tag))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> _Pending:  # noqa: N802
        """Start to gather equal blocks from all ranks."""
        block, out = _octets(sendbuf), _octets(recvbuf)
        if len(out) != self.size * len(block):
            raise ValueError(f"{self.size} blocks of {len(block)} bytes do not fill a buffer of {len(out)}")
        return self._gather(
            "Iallgather", block, out, [len(block)] * self.size, range(0, len(out), len(block) or 1)
        )

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> _Pending:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [array, (counts, displacements)]."""
        out, (counts, starts) = recvbuf
        return self._gather("Iallgatherv", _octets(sendbuf), _octets(out), counts, starts)

    def block(self, requests: Sequence[_Pending]) -> bool:
        """Let the other ranks run until one of the requests can complete; False where none ever can."""
        while not any(request.ready() for request in requests):
            if not self._world.pass_turn(self.rank, waiting=True):
                return False
        return True

    def _gather(
        self, call: str, block: _Octets, out: _Octets, counts: Sequence[int], starts: Sequence[int]
    ) -> _Pending:
        self._world.check()
        if len(counts) != self.size or len(block) != counts[self.rank]:
            raise ValueError(
                f"rank {self.rank} contributes {len(block)} bytes to {call}, but counts are {list(counts)}"
            )
        number = self._collectives
        self._collectives += 1
        self.bytes_sent += ring_bytes(counts, self.rank) if self.size > 1 else 0
        gathering = self._world.join(self, number, call, block.tobytes())
        return _Gathered(self, gathering, out, list(zip(starts, counts, strict=False)))

    def _other(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} does not exist: the communicator has {self.size}")
        return rank


_Octets: TypeAlias = npt.NDArray[np.uint8]
_FRUITLESS = 100_000  # polls by all ranks together, in which nothing was sent: a program that polls forever


class _Ended(BaseException):
    """Ends a rank's thread because another one failed; no `except Exception` of the program catches it."""


class _World:
    """What the ranks share. Only the rank whose turn it is touches it, so it needs no locks."""

    def __init__(self, n: int, alpha: float, beta: float) -> None:
        self.n, self.alpha, self.beta = n, alpha, beta
        self.turns = [threading.Semaphore(0) for _ in range(n)]
        self.state: list[Literal["ready", "waiting", "gone"]] = ["ready"] * n
        self.stuck: set[int] = set()
        self.polls = 0
        self.failure: tuple[int, BaseException] | None = None
        self.messages: defaultdict[tuple[int, int, int], deque[tuple[bytes, float]]] = defaultdict(deque)
        self.receives: defaultdict[tuple[int, int, int], deque[_Receive]] = defaultdict(deque)
        self.gatherings: dict[int, _Gathering] = {}

    def check(self) -> None:
        """End this rank if another one failed."""
        if self.failure is not None:
            raise _Ended

    def wake(self, rank: int) -> None:
        """Something happened that this rank may wait for."""
        if self.state[rank] == "waiting":
            self.state[rank] = "ready"

    def pass_turn(self, rank: int, *, waiting: bool) -> bool:
        """Let the next rank run that can, and return when it is this rank's turn again.

        False where this rank waits, and so does, or has left, every other: nothing can ever happen again.
        """
        if waiting:
            self.state[rank] = "waiting"
        self._hand_on(rank)
        self.turns[rank].acquire()
        self.check()
        if rank in self.stuck:
            self.stuck.discard(rank)
            return False
        return True

    def leave(self, rank: int) -> None:
        """This rank is done."""
        self.state[rank] = "gone"
        self._hand_on(rank)

    def fail(self, rank: int, error: BaseException) -> None:
        """Note the first failure, and let every waiting rank run to its end."""
        if self.failure is None:
            self.failure = rank, error
        for other in range(self.n):
            self.wake(other)

    def _hand_on(self, rank: int) -> None:
        order = [(rank + step) % self.n for step in range(1, self.n + 1)]
        ready = [other for other in order if self.state[other] == "ready"]
        if not ready:
            ready = [other for other in order if self.state[other] == "waiting"]
            self.stuck.update(ready)
            for other in ready:
                self.wake(other)
        if ready:
            self.turns[ready[0]].release()

    def join(self, comm: SimulatedComm, number: int, call: str, data: bytes) -> _Gathering:
        """Add a rank's block to the communicator's number-th collective."""
        gathering = self.gatherings.setdefault(number, _Gathering(call))
        if gathering.call != call:
            raise RuntimeError(
                f"rank {comm.rank} calls {call} as collective {number}, another rank {gathering.call}"
            )
        gathering.blocks[comm.rank] = data
        gathering.times[comm.rank] = comm.clock
        self.polls = 0
        if len(gathering.blocks) == self.n:
            del self.gatherings[number]
            gathering.finish(self.n, self.alpha, self.beta)
            for rank in range(self.n):
                self.wake(rank)
        return gathering


class _Gathering:
    """One collective: what the ranks have contributed so far, and when; then, when each of them has it
    all.
    """

    def __init__(self, call: str) -> None:
        self.call = call
        self.blocks: dict[int, bytes] = {}
        self.times: dict[int, float] = {}
        self.done = False

    def finish(self, n: int, alpha: float, beta: float) -> None:
        """The rounds of a ring: in round k, rank r sends the block of rank r-k to its right."""
        now = [self.times[rank] for rank in range(n)]
        size = [len(self.blocks[rank]) for rank in range(n)]
        for k in range(n - 1):
            now = [
                max(now[r], now[r - 1]) + alpha + beta * max(size[(r - k) % n], size[(r - 1 - k) % n])
                for r in range(n)
            ]
        self.times = dict(enumerate(now))
        self.done = True


class _Pending:
    """A request. Test lets other ranks run where it finds nothing, so that a rank may poll as under MPI."""

    def __init__(self, comm: SimulatedComm) -> None:
        self._comm = comm
        self._complete = False

    def ready(self) -> bool:
        """Whether Test would be True."""
        raise NotImplementedError

    def take(self) -> float:
        """Complete the request; the time at which it completed."""
        raise NotImplementedError

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; True once the operation is complete."""
        world = self._comm._world
        world.check()
        if not self._complete and not self.ready():
            world.polls += 1
            if world.polls > _FRUITLESS:
                raise Timeout(
                    f"rank {self._comm.rank}: all ranks poll or wait, and none sends", reason="timeout"
                )
            world.pass_turn(self._comm.rank, waiting=False)
        if not self._complete and self.ready():
            self._comm.clock = max(self._comm.clock, self.take())
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
    """Messages of one source and tag go to the receives in the order in which these were posted."""

    def __init__(self, comm: SimulatedComm, out: _Octets, key: tuple[int, int, int]) -> None:
        super().__init__(comm)
        self._out = out
        self._message: tuple[bytes, float] | None = None
        self._key = key
        comm._world.receives[key].append(self)

    def ready(self) -> bool:
        world = self._comm._world
        waiting, arrived = world.receives[self._key], world.messages[self._key]
        while waiting and arrived:
            waiting.popleft()._message = arrived.popleft()
        return self._complete or self._message is not None

    def take(self) -> float:
        assert self._message is not None
        data, arrival = self._message
        if len(data) > len(self._out):
            raise RuntimeError(f"a message of {len(data)} bytes does not fit a receive of {len(self._out)}")
        self._out[: len(data)] = np.frombuffer(data, np.uint8)
        self._message = None
        return arrival


class _Gathered(_Pending):
    def __init__(
        self, comm: SimulatedComm, gathering: _Gathering, out: _Octets, places: Sequence[tuple[int, int]]
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
        return self._gathering.times[self._comm.rank]


def _octets(buf: Any) -> _Octets:
    """The bytes of a contiguous array, without a copy."""
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("a buffer must be contiguous")
    return array.reshape(-1).view(np.uint8)


def _note(error: BaseException, text: str) -> None:
    """error.add_note, which Python 3.10 does not have."""
    error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined]
