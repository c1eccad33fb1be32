"""What ranks remember between collectives: the sequence number, the deadline, the bytes sent.

Every collective takes a Channel or a bare communicator. A bare communicator's Channel is kept with the
communicator itself (an MPI attribute, or a Python attribute where the communicator is no MPI one), so
that it lives as long and there is no table of communicators anywhere. A Channel belongs to one thread.

Messages travel on the caller's communicator with one tag, TAG; an application that receives with ANY_TAG
from ANY_SOURCE while a collective runs should hand over a duplicate (comm.Dup()).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.call import Call
from collectives.communicator import Communicator, Patience, Request, wait_all
from collectives.device import DEVICES, Device, may_take_device
from collectives.errors import CollectiveError, Timeout
from collectives.rates import Rates

__all__ = ["TAG", "Channel", "Octets", "gathered_bytes", "ring_bytes"]

Octets: TypeAlias = npt.NDArray[np.uint8]

TAG = 0x5743  # every point-to-point message of this package; within MPI's guaranteed range
_ATTRIBUTE = "_collectives_channel"
_LOOK_AGAIN = 64  # exchanges
_KEPT = 16 << 20  # bytes of room
_LOCK = threading.Lock()


class Channel:
    """One communicator, as this package uses it.

    Args:
        comm: an mpi4py intracommunicator, or any other object that satisfies Communicator.
        timeout: seconds a rank waits without anything arriving before it raises Timeout. Ranks reach a
            collective at different times: allow for the longest computation between two of them.
        meanwhile: what to do while nothing arrives: a piece of the caller's own computation, of a millisecond
            or so, called again and again until the collective is done; False once there is nothing left.
            Communication proceeds between the calls. If it raises before the last payload is complete, the
            channel is closed; payloads under way arrive first.
        device: whether MPI may be handed memory of a GPU: "mpi", "staged", or "auto", which asks MPI. All
            ranks say "auto", or none does.

    Attributes:
        sequence: number of the next collective, counted by calls. All ranks must agree on it. A rank that
            leaves a call out on purpose adds 1, so that all ranks hear of it in the next exchange; one that
            leaves it out unawares is not noticed: its next call is taken for the one it missed.
        bytes_sent: header and payload bytes that this rank has put on the wire; what stays on the rank
            is not counted. MPI's own all-gathers are counted as a ring: every block but the one of the
            right neighbour.
        rates: what communication costs here, once it was measured (``calibration``).
        closed: why the channel can no longer be used, or None.
        call: progress of the latest collective call.

    Raises TypeError if comm is an intercommunicator or no communicator. Raises ValueError if comm is
    MPI.COMM_NULL, as a communicator is after ``comm.Free()``, or if another argument is out of range. A
    collective on a channel whose communicator was freed meanwhile raises the same ValueError.
    """

    def __init__(
        self,
        comm: Communicator,
        *,
        timeout: float = 30.0,
        meanwhile: Callable[[], bool] | None = None,
        device: Device = "auto",
    ) -> None:
        if _is_mpi(comm):
            _check_mpi(comm)
        if not isinstance(comm, Communicator):
            raise TypeError(
                f"{type(comm).__name__} is no communicator: see collectives.communicator.Communicator"
            )
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}, but must be a positive number of seconds")
        self.comm = comm
        self._mpi = _is_mpi(comm)
        self.rank = comm.rank
        self.size = comm.size
        if device not in DEVICES:
            raise ValueError(f"device is {device!r}; the choices are {', '.join(map(repr, DEVICES))}")
        self.timeout = timeout
        self.device = device
        self._takes_device: bool | None = None
        self.meanwhile = meanwhile
        self.sequence = 0
        self.bytes_sent = 0
        self.closed: str | None = None
        self.call = Call()
        self._abandoned: list[object] = []
        self.rates: Rates | None = None
        self._unions: dict[int, int] = {}
        self._room: Octets = np.empty(0, np.uint8)

    @classmethod
    def of(cls, comm: Communicator | Channel) -> Channel:
        """The channel itself, or the one kept with a communicator, made on first use."""
        if isinstance(comm, Channel):
            return comm
        if _is_mpi(comm) and not comm:
            raise ValueError(_NULL)
        channel = _kept(comm)
        if channel is None:
            channel = cls(comm)
            _keep(comm, channel)
        return channel

    def open(self) -> Channel:
        """The channel, if it can still be used.

        Raises CollectiveError if it is closed, ValueError if its communicator was freed.
        """
        if self._mpi and not self.comm:
            raise ValueError(_NULL)
        if self.closed is not None:
            raise CollectiveError(
                f"rank {self.rank}: this communicator was given up earlier ({self.closed}); messages may"
                " still be under way on it, so continue on another one",
                reason="closed",
            )
        return self

    def takes_device(self) -> bool:
        """Whether every rank's MPI may be handed device memory; all ranks call this together, the first time.

        Of "auto" and a communicator that is none of MPI's nothing is asked. Raises Timeout.
        """
        if self._takes_device is None and self.device == "auto" and not _is_mpi(self.comm):
            self._takes_device = False
        if self._takes_device is None:
            mine = np.array([may_take_device(self.comm, self.device)], np.uint8)
            table = np.zeros(self.size, np.uint8)
            self.gather(mine, table, "telling who takes device memory")
            self._takes_device = bool(table.all())
        return self._takes_device

    def room(self, nbytes: int) -> Octets:
        """Bytes to work in until the next call; a little is kept, for to find it anew takes its time."""
        if nbytes > _KEPT:
            return np.empty(nbytes, np.uint8)
        if len(self._room) < nbytes:
            self._room = np.empty(nbytes, np.uint8)
        return self._room[:nbytes]

    def patience(self, what: str) -> Patience:
        """How to wait for ``what`` on this channel."""
        return Patience(self.comm, self.timeout, what, self.meanwhile)

    def remember_union(self, signature: int, elements: int) -> None:
        """How many elements the ranks stored between them, of the tensors with this signature."""
        self._unions[signature] = elements

    def union_of(self, signature: int) -> int | None:
        """What was remembered of these tensors, the same on all ranks; or None."""
        return self._unions.get(signature)

    def due(self, signature: int) -> bool:
        """Whether it is time to look again how many elements the ranks store between them."""
        return signature not in self._unions or self.sequence % _LOOK_AGAIN == 0

    @contextmanager
    def collective(self, *, begun: bool = False) -> Iterator[Call]:
        """Guard a whole collective call, as the table of ``collectives.call`` says.

        A CollectiveError that comes from outside a transfer is a verdict, which all ranks raise alike: the
        channel stays usable.

        Args:
            begun: whether the call exchanges no headers, so that its payloads must not meet another call's.

        Raises CollectiveError if the channel is closed, ValueError if its communicator was freed.
        """
        call = self.open().call = Call(begun=begun)
        try:
            yield call
        except BaseException as error:
            if not call.begun:
                self.sequence = (self.sequence + 1) % 2**64
            elif not (call.in_step or isinstance(error, CollectiveError)):
                self._close(error)
            raise

    def gather(
        self,
        block: Octets,
        out: Octets,
        what: str,
        places: tuple[Sequence[int], Sequence[int]] | None = None,
        *,
        finish: bool = True,
    ) -> None:
        """Gather every rank's block by one call of MPI's.

        Args:
            block: this rank's bytes, contiguous.
            out: buffer for all blocks in rank order, of sum(counts) bytes.
            what: this is, named in a Timeout.
            places: (counts, displacements) in bytes; without them all blocks have one length.
            finish: as for ``drive``.

        Raises Timeout after the channel's timeout without progress; the channel is then closed.
        """
        patience = self.patience(what)
        requests: list[Request] = []

        def run() -> None:
            if not requests:
                requests.append(
                    self.comm.Iallgather(block, out)
                    if places is None
                    else self.comm.Iallgatherv(block, [out, places])
                )
            wait_all(patience, requests)

        self.drive(run, (requests, block, out), finish=finish)

    def drive(self, run: Callable[[], None], held: object, *, finish: bool = True) -> None:
        """Run a transfer to its end.

        If one rank breaks off a transfer, some ranks complete it and others do not. So an exception that is
        not the transport's own (an interrupt, a MemoryError) is raised only after ``run`` was called once
        more and has completed the transfer. A second exception on the way is raised at once.

        Args:
            run: the transfer; if it is called again, it goes on where it was left.
            held: requests and buffers. MPI may still write into these if the transfer does not complete, so a
                closed channel keeps them, and its communicator keeps the channel.
            finish: whether an exception waits for the transfer. Headers may take as long as the slowest
                rank's computation, and no other rank can complete the call without this rank's payload.
        """
        call = self.call
        call.begun = True
        try:
            try:
                run()
            except RuntimeError:  # of the transport: a Timeout, an error of MPI's or gloo's
                raise
            except BaseException:
                if finish:
                    with suppress(Timeout):
                        run()
                        call.delivered = call.last
                raise
        except BaseException as error:
            if not call.delivered:
                self._abandoned.append(held)
                self._close(error)
            raise
        call.delivered = call.last

    def _close(self, error: BaseException) -> None:
        """Refuse further use; kept with its communicator, the channel refuses that as well."""
        if self.closed is None:
            self.closed = str(error) or type(error).__name__
            if not self._mpi or self.comm:
                _keep(self.comm, self)

    def __repr__(self) -> str:
        state = "closed" if self.closed is not None else f"sequence {self.sequence}"
        return f"<Channel of rank {self.rank} of {self.size}, {state}>"


def ring_bytes(counts: Sequence[int], rank: int) -> int:
    """Bytes that a rank sends in a ring all-gather: all blocks but its right neighbour's."""
    return sum(counts) - counts[(rank + 1) % len(counts)]


def gathered_bytes(nbytes: int, size: int) -> int:
    """Bytes that each rank sends in a ring all-gather of equal blocks."""
    return nbytes * (size - 1)


_NULL = (
    "the communicator is MPI.COMM_NULL: this process is none of its ranks, or it was freed;"
    " use a communicator that contains this process"
)


def _check_mpi(comm: Any) -> None:
    """Raise ValueError if an MPI communicator is null, TypeError if it is an intercommunicator."""
    if not comm:
        raise ValueError(_NULL)
    if comm.Is_inter():
        raise TypeError(
            f"{type(comm).__name__} is an intercommunicator, on which MPI gathers from the remote group only;"
            " use the intracommunicator that comm.Merge() returns"
        )


def _is_mpi(comm: Any) -> bool:
    return hasattr(comm, "Get_attr") and hasattr(comm, "Set_attr") and hasattr(comm, "Create_keyval")


@cache
def _created_keyval() -> int:
    from mpi4py import MPI

    return MPI.Comm.Create_keyval()  # without a copy function: a duplicate starts with a channel of its own


def _keyval() -> int:
    """The one MPI attribute key of this process. The lock keeps two threads from creating one each."""
    with _LOCK:
        return _created_keyval()


def _kept(comm: Any) -> Channel | None:
    found = comm.Get_attr(_keyval()) if _is_mpi(comm) else getattr(comm, _ATTRIBUTE, None)
    return found if isinstance(found, Channel) else None


def _keep(comm: Any, channel: Channel) -> None:
    if _is_mpi(comm):
        comm.Set_attr(_keyval(), channel)
    else:
        setattr(comm, _ATTRIBUTE, channel)
