"""What a communicator must offer, and how to wait on one.

``Communicator`` is the part of MPI that this package uses; mpi4py's Comm satisfies it as it is, and so
does a simulated one. Every wait is bounded: requests are polled, at first without a pause, then giving
up the core, then asleep for an eighth of the time waited so far (ranks may outnumber the cores, and nobody
should sleep through much of what arrives), until they complete or until nothing has happened for ``timeout``
seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from collectives.errors import Timeout

__all__ = ["Communicator", "Patience", "Request", "wait_all"]

_SPINS = 50  # polls before the core is given up, about 20 µs
_YIELDS = 10  # polls that give up the core, before sleeping
_ASLEEP = 1 / 8  # of the time waited so far
_LONGEST_SLEEP = 1e-3


@runtime_checkable
class Request(Protocol):
    """An operation under way. It keeps its buffers alive for as long as it lives."""

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; True once the operation is complete."""
        ...


@runtime_checkable
class Communicator(Protocol):
    """Ranks that exchange buffers; the names and meanings are MPI's.

    A communicator on which polling is wasteful may offer ``block(requests) -> bool`` besides: sleep until
    one of the requests may have completed; False where none of them ever can.
    """

    @property
    def rank(self) -> int:
        """This process, 0 … size-1."""
        ...

    @property
    def size(self) -> int:
        """How many ranks there are."""
        ...

    def Isend(self, buf: Any, dest: int, tag: int = ...) -> Request:  # noqa: N802
        """Start to send. Messages of one sender, receiver and tag arrive in order.

        Args:
            buf: a contiguous array.
            dest: a rank, this one included.
            tag: of the message.
        """
        ...

    def Irecv(self, buf: Any, source: int, tag: int = ...) -> Request:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array, at least as long as the message.
            source: a rank, this one included.
            tag: of the message.
        """
        ...

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal uint8 blocks from all ranks, in rank order."""
        ...

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [uint8 array, (counts, displacements)]."""
        ...


class Patience:
    """How one rank waits: ``pause`` after a poll that found nothing, ``progress`` after one that did.

    Args:
        comm: whose requests are polled.
        timeout: seconds without progress after which ``pause`` raises Timeout.
        what: what is waited for, named in the Timeout.
        meanwhile: what to do instead of resting, while it returns True.
    """

    def __init__(
        self, comm: Communicator, timeout: float, what: str, meanwhile: Callable[[], bool] | None = None
    ) -> None:
        self._meanwhile = meanwhile
        self._rank = comm.rank
        self._block = getattr(comm, "block", None)
        # As if all ranks were on this host: giving up the core costs little where they are not.
        self._spins = _SPINS if comm.size <= _cores() else 0
        self._timeout = timeout
        self._what = what
        self.progress()

    def progress(self) -> None:
        """Something completed: be eager again, and start the timeout anew."""
        self._misses = 0
        self._since = time.monotonic()

    def pause(self, pending: Sequence[Request]) -> None:
        """Nothing completed: let others run for a moment, or use it oneself. Raises Timeout."""
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None  # one that raises is not called again
            if meanwhile():
                self._meanwhile = meanwhile
                self._give_time()
                return
        if self._block is not None:
            if not self._block(pending):
                raise self._expired("can never finish: every rank is waiting or gone")
            return
        self._misses += 1
        if self._misses <= self._spins:
            return
        waited = time.monotonic() - self._since
        if self._misses <= self._spins + _YIELDS:
            _give_up_core()
        else:
            time.sleep(min(waited * _ASLEEP, _LONGEST_SLEEP))
        if waited > self._timeout:
            raise self._expired(
                f"saw nothing arrive for {self._timeout:g} s: a rank stopped, or does something else"
            )

    def _give_time(self) -> None:
        """Time that was used is no time in which nothing arrived: the next poll comes first."""
        self._since = time.monotonic()

    def _expired(self, why: str) -> Timeout:
        return Timeout(f"rank {self._rank}: {self._what} {why}", reason="timeout")


def wait_all(patience: Patience, requests: Sequence[Request]) -> None:
    """Poll until every request is complete; they may be already. Raises Timeout as ``patience`` does."""
    pending = list(requests)
    while pending:
        left = [request for request in pending if not request.Test()]
        if len(left) < len(pending):
            patience.progress()
        elif left:
            patience.pause(left)
        pending = left


def _cores() -> int:
    """Cores that this process may use (a container or a binding may leave fewer than the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _give_up_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
