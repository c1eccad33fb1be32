"""Interface of a communicator, waiting with a deadline, and bytes sent by all-gathers.

``Communicator`` is the part of MPI that this package uses. mpi4py's Comm and the simulated communicator
satisfy it.

Requests are polled. The first polls have no pause, the next ones yield the core, and later ones sleep for an
eighth of the time waited so far: ranks may outnumber the cores, and a long sleep would delay what arrives.
The wait ends if all requests complete, or if nothing arrives for ``timeout`` seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from collectives.errors import Timeout

__all__ = [
    "Backoff",
    "Communicator",
    "Request",
    "count_equal_ring_bytes",
    "count_ring_bytes",
    "wait_all",
]

POLLS_WITHOUT_PAUSE = 50  # about 20 µs
POLLS_WITH_YIELD = 10
SLEEP_FRACTION = 1 / 8  # of the time waited so far
MAX_SLEEP = 1e-3  # seconds


@runtime_checkable
class Request(Protocol):
    """Operation in progress. It keeps its buffers alive."""

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; return True if the operation is complete."""
        ...


@runtime_checkable
class Communicator(Protocol):
    """Group of ranks that exchange buffers; names and meanings are MPI's.

    A communicator may also have ``block(requests) -> bool``, which is used instead of polling. It waits until
    one of the requests may have completed, and returns False if none of them ever can.
    """

    @property
    def rank(self) -> int:
        """This process, 0 … size-1."""
        ...

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...

    def Isend(self, buf: Any, dest: int, tag: int = ...) -> Request:  # noqa: N802
        """Start to send. Messages with the same sender, receiver and tag arrive in order.

        Args:
            buf: a contiguous array.
            dest: a rank; this one is allowed.
            tag: of the message.
        """
        ...

    def Irecv(self, buf: Any, source: int, tag: int = ...) -> Request:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array, at least as long as the message.
            source: a rank; this one is allowed.
            tag: of the message.
        """
        ...

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal uint8 blocks from all ranks, in rank order."""
        ...

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [uint8 array, (counts, displacements)]."""
        ...


class Backoff:
    """Waiting strategy of one rank: call ``pause`` after a poll without result, else ``reset``.

    Args:
        comm: the communicator whose requests are polled.
        timeout: seconds without an arrival after which ``pause`` raises Timeout.
        what: name of the operation in the Timeout.
        meanwhile: a function that is called instead of a pause until it returns False.
    """

    def __init__(
        self, comm: Communicator, timeout: float, what: str, meanwhile: Callable[[], bool] | None = None
    ) -> None:
        self._meanwhile = meanwhile
        self._rank = comm.rank
        self._block = getattr(comm, "block", None)
        # This assumes that all ranks share this host: if they do not, an early yield costs little.
        self._max_spins = POLLS_WITHOUT_PAUSE if comm.size <= _count_cores() else 0
        self._timeout = timeout
        self._what = what
        self.reset()

    def reset(self) -> None:
        """Poll without pauses again, and restart the timeout, because something completed."""
        self._misses = 0
        self._since = time.monotonic()

    def pause(self, pending: Sequence[Request]) -> None:
        """Yield the core, sleep, or call ``meanwhile``, because nothing completed.

        Args:
            pending: the requests that are waited for.

        Raises:
            Timeout: the timeout is over, or the requests can never complete.
        """
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None  # if it raises, it is not called again
            if meanwhile():
                self._meanwhile = meanwhile
                self._since = time.monotonic()  # the caller's computation does not count as silence
                return
        if self._block is not None:
            if not self._block(pending):
                raise self._make_timeout("cannot complete: every rank waits or has ended")
            return
        self._misses += 1
        if self._misses <= self._max_spins:
            return
        waited = time.monotonic() - self._since
        if self._misses <= self._max_spins + POLLS_WITH_YIELD:
            _yield_core()
        else:
            time.sleep(min(waited * SLEEP_FRACTION, MAX_SLEEP))
        if waited > self._timeout:
            raise self._make_timeout(
                f"received nothing for {self._timeout:g} s; a rank has stopped, or has not made this call."
                " If it only computes for longer, pass Channel(comm, timeout=...) with a larger timeout"
            )

    def _make_timeout(self, why: str) -> Timeout:
        return Timeout(f"rank {self._rank}: {self._what} {why}", reason="timeout")


def wait_all(backoff: Backoff, requests: Sequence[Request]) -> None:
    """Poll until every request is complete. Raises Timeout like ``backoff``."""
    pending = list(requests)
    while pending:
        incomplete = [request for request in pending if not request.Test()]
        if len(incomplete) < len(pending):
            backoff.reset()
        elif incomplete:
            backoff.pause(incomplete)
        pending = incomplete


def count_ring_bytes(counts: Sequence[int], rank: int) -> int:
    """Count the bytes that a rank sends in a ring all-gather: every block except its right neighbour's.

    Args:
        counts: bytes of every rank's block.
        rank: the sender.
    """
    return sum(counts) - counts[(rank + 1) % len(counts)]


def count_equal_ring_bytes(nbytes: int, size: int) -> int:
    """Count the bytes that each of ``size`` ranks sends in a ring all-gather of blocks of ``nbytes``."""
    return nbytes * (size - 1)


def _count_cores() -> int:
    """Count the cores that this process may use; a container or a binding may exclude some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
