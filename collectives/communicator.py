"""Interface of a communicator, the Channel that it keeps, and bytes sent by all-gathers.

``Communicator`` is the part of MPI that this package uses. mpi4py's Comm, TorchComm and the simulated
communicator satisfy it.

An MPI communicator keeps its Channel as an MPI attribute, so that all handles of the communicator share it.
Any other communicator keeps it as a Python attribute. The Channel lives as long as its communicator.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn, Protocol, runtime_checkable

from collectives.errors import name_kind

_NAME = "_collectives_channel"
_LOCK = threading.Lock()


class TransportError(RuntimeError):
    """Error of a communicator or a request that cannot send or receive, as after a rank has died."""


@runtime_checkable
class Request(Protocol):
    """Operation in progress. It keeps its buffers alive."""

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Make progress; return True if the operation is complete."""
        ...


@runtime_checkable
class Communicator(Protocol):
    """Group of ranks that exchange buffers; names and meanings are MPI's.

    A method that begins an operation returns its request, or raises before anything is sent. If it raises
    after that, nothing tells whether it has sent: other ranks may take a step that this rank rolls back.

    A communicator may also have these attributes:

    - ``bound() -> Communicator``: the communicator that is used in place of this one, from the present
      exchange on. Each has its own Channel.
    - ``block(requests) -> bool`` is used instead of polling. It waits until one of the requests may have
      completed, and returns False if none of them ever can. Deadlines do not apply then.
    - ``gathers_any_size``: whether Iallgatherv is faster than a ring of messages also for large blocks.
    - ``timeout``: the seconds that a Channel waits by default.
    - ``Iprobe(source, tag) -> bool``, as in MPI, or ``notices``, a ``collectives.waiting.board.Board``. A
      Timeout can name the missing ranks only if there is one of them, or ``block``.
    - ``beginnings``: a ``collectives.waiting.worker.Worker`` in whose thread a Channel of the main thread
      begins operations. An interrupt within a method that is written in Python would lose its request.
    - ``find_closed() -> Collection[int]``: the ranks to which the connection is closed, as after their
      processes have died. If it was lost to one rank, the others are not taken for missing then.
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


def get_bound(comm: Any) -> Any:
    """Return the communicator that is used in place of another one, which may not be bound yet.

    Raises TypeError if it is a class.
    """
    if isinstance(comm, type):
        refuse_communicator(comm)
    bound = getattr(comm, "bound", None)
    return comm if bound is None else bound()


def has_members(value: object, protocol: type) -> bool:
    """Tell whether an object has all members of a protocol, also those that it looks up at another object.

    From Python 3.12 on, ``isinstance`` does not see the latter, and refuses a wrapper with ``__getattr__``.
    """
    parts = [part for part in protocol.__mro__ if getattr(part, "_is_protocol", False)]
    return all(hasattr(value, name) for part in parts for name in vars(part) if not name.startswith("_"))


def check_communicator(comm: object) -> None:
    """Raise TypeError if an object does not satisfy Communicator."""
    if not has_members(comm, Communicator):
        refuse_communicator(comm)


def refuse_communicator(comm: object) -> NoReturn:
    """Raise TypeError of an object that is not a communicator."""
    raise TypeError(
        f"{name_kind(comm)} is not a communicator; pass an mpi4py communicator,"
        " a collectives.TorchComm, or an object that satisfies collectives.communicator.Communicator"
    )


def is_mpi(comm: Any) -> bool:
    """Return whether an object has MPI's attribute functions, as mpi4py's communicators have."""
    return hasattr(comm, "Get_attr") and hasattr(comm, "Set_attr") and hasattr(comm, "Create_keyval")


def check_not_null(comm: Any) -> None:
    """Raise ValueError if an MPI communicator is MPI.COMM_NULL, as it is after ``comm.Free()``."""
    if not comm:
        raise ValueError(
            "the communicator is MPI.COMM_NULL: it was freed, or this process is not one of its ranks;"
            " use a communicator that contains this process"
        )


def check_mpi(comm: Any) -> None:
    """Raise ValueError if an MPI communicator is null, TypeError if it is an intercommunicator."""
    check_not_null(comm)
    if comm.Is_inter():
        raise TypeError(
            f"{type(comm).__name__} is an intercommunicator, on which MPI gathers from the remote group only;"
            " use the intracommunicator that comm.Merge() returns"
        )


def attach(comm: Any, value: object) -> None:
    """Keep an object with a communicator."""
    if is_mpi(comm):
        comm.Set_attr(_get_keyval(), value)
    else:
        setattr(comm, _NAME, value)


def get_attached(comm: Any) -> object:
    """Return the object that ``attach`` kept with a communicator, or None."""
    return comm.Get_attr(_get_keyval()) if is_mpi(comm) else getattr(comm, _NAME, None)


def _get_keyval() -> int:
    """Return the one MPI attribute key of this process. The lock prevents a second key by another thread."""
    with _LOCK:
        return _create_keyval()


@cache
def _create_keyval() -> int:
    from mpi4py import MPI

    return MPI.Comm.Create_keyval()  # without a copy function: a duplicate gets its own Channel


def gathers_any_size(comm: object) -> bool:
    """Return whether a communicator's own all-gather is the faster one for blocks of any size."""
    return bool(getattr(comm, "gathers_any_size", False))


def is_transport_error(error: BaseException) -> bool:
    """Return whether a communicator has failed: a TransportError, or an exception of mpi4py."""
    return isinstance(error, TransportError) or type(error).__module__.partition(".")[0] == "mpi4py"


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
