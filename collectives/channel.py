"""State of one rank between collectives: the sequence number, the timeout and the bytes sent.

Every collective accepts a Channel or a communicator. A communicator keeps its own Channel
(``collectives.communicator``), so both live equally long. A Channel is used by one thread at a time.

All messages use the caller's communicator and one tag, TAG; notices after a failure use NOTICE_TAG. An
application that receives from ANY_SOURCE with ANY_TAG during a collective should pass a duplicate
(comm.Dup()).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.call import Beginning, Call
from collectives.communicator import (
    Communicator,
    Request,
    attach,
    check_communicator,
    check_mpi,
    check_not_null,
    gathers_any_size,
    get_attached,
    get_bound,
    is_mpi,
    is_transport_error,
)
from collectives.cost_model import Rates
from collectives.device import DEVICES, Device, may_take_device
from collectives.errors import CollectiveError, Nested, is_shared
from collectives.foresight import Foresight
from collectives.waiting.backoff import Backoff, check_seconds, wait_all
from collectives.waiting.roll_call import RollCall
from collectives.waiting.worker import Worker
from wirecodec.interop import run_uninterrupted

ByteArray: TypeAlias = npt.NDArray[np.uint8]

TAG = 0x5743  # of every point-to-point message of this package; within MPI's guaranteed range
UNION_COUNT_INTERVAL = 64  # exchanges between two counts of the union
_COUNTS = "bytes_sent", "calibration_bytes"
MAX_KEPT_BUFFER = 16 << 20  # bytes
MAX_SMALL = 4 * 1024  # bytes of a payload behind a header
PIECE = 1024 * 1024  # bytes per rank in a native all-gather of any size; 8 s at 1 Mbit/s
DEFAULT_TIMEOUT = 30.0  # seconds


class Channel:
    """One rank's end of a communicator, with the state that collectives need between calls.

    Args:
        comm: an mpi4py intracommunicator, or any object that satisfies Communicator.
        timeout: seconds without any arrival after which a waiting rank raises Timeout. It must exceed the
            longest computation between two calls, because ranks reach a collective at different times. None
            for the communicator's own timeout, as TorchComm has one, or else 30 s.
        compile_timeout: seconds that replace ``timeout`` while a rank compiles kernels for this call, which
            it announces to all ranks.
        meanwhile: a function that runs while nothing arrives: a part of the caller's own computation, of
            about a millisecond. It is called again until it returns False or the collective is complete.
            Communication proceeds between the calls. If it raises before the last payload is complete, the
            payloads in flight arrive first, and the channel is closed.
        device: whether MPI may receive GPU memory: "mpi", "staged", or "auto", which asks MPI. It may, if it
            may on all ranks.

    Attributes:
        comm, compile_timeout, meanwhile, device: as given.
        timeout: as given, or its default in seconds.
        rank: this process, 0 … size-1.
        size: number of ranks.
        sequence: number of the next collective. All ranks must agree on it. A rank that skips a call on
            purpose adds 1, and the next exchange reports this to all ranks. If a rank skips a call by
            mistake, its next call is matched with the others' current one.
        bytes_sent: header and payload bytes that this rank sent to other ranks. MPI's all-gathers count as
            rings: every block except the right neighbour's.
        last: numbers of the last exchange for a log, None before the first: "exchange" (its number), "bytes"
            that this rank sent, "seconds" of the call, of which "encoding" (and compiling), and "waiting" for
            messages; transfers are a part of it.
        calibration_bytes: bytes that this rank sent to measure the network, once, for ``algorithm="auto"``;
            at most as many as the container of that step, and about 16 per rank.
        rates: measured costs of communication, or None before the first measurement.
        closed: the reason why the channel can no longer be used, or None.
        call: progress of the latest collective call.
        rehearsed: operations whose kernels are ready on this rank (``collectives.agreement.compilation``).
        foresight: the size of the next exchange's payloads.
        has_new_sparse: whether a rank has a sparse gradient of which the others do not know
            (``collectives.torch.layouts``).
        sparse_layouts: {names: {name: sparse dimensions}}, of which all ranks know.
        roll_call: finds the ranks that a Timeout names.
        worker: thread that makes calls for a program, in the order in which they are submitted.
            A call in another thread waits for those that were submitted before it.

    Raises:
        TypeError: comm is an intercommunicator or not a communicator.
        ValueError: comm is MPI.COMM_NULL, or another argument is out of range. A collective on a
            communicator that was freed later raises the same error.

    Examples:
        >>> import collectives as co
        >>> channels = co.simulate(2, lambda comm: co.Channel(comm, timeout=60))
        >>> channels[1]
        <Channel of rank 1 of 2, sequence 0>
    """

    def __init__(
        self,
        comm: Communicator,
        *,
        timeout: float | None = None,
        compile_timeout: float = 600.0,
        meanwhile: Callable[[], bool] | None = None,
        device: Device = "auto",
    ) -> None:
        comm = get_bound(comm)
        self._mpi = is_mpi(comm)
        if self._mpi:
            check_mpi(comm)
        check_communicator(comm)
        if timeout is None:
            timeout = getattr(comm, "timeout", None) or DEFAULT_TIMEOUT
        check_seconds(timeout=timeout, compile_timeout=compile_timeout)
        if device not in DEVICES:
            raise ValueError(f"device is {device!r}; the choices are {', '.join(map(repr, DEVICES))}")
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self._process = os.getpid()
        self.timeout = timeout
        self.compile_timeout = compile_timeout
        self.meanwhile = meanwhile
        self.device = device
        self.sequence = 0
        self.bytes_sent = self.calibration_bytes = 0
        self.last: dict[str, float] | None = None
        self.rates: Rates | None = None
        self.closed: str | None = None
        self.call = Call()
        self.rehearsed: set[object] = set()
        self.foresight = Foresight(PIECE if gathers_any_size(comm) else MAX_SMALL)
        self.has_new_sparse = False
        self.sparse_layouts: dict[tuple[str, ...], dict[str, int]] = {}
        self.roll_call = RollCall(comm)
        self.worker = Worker("collectives.Channel")
        self._beginnings: Worker | None = getattr(comm, "beginnings", None)
        self._takes_device: bool | None = None
        self._abandoned: list[object] = []
        self._union_sizes: dict[int, int] = {}
        self._bounds: dict[int, list[int]] = {}
        self._buffer: ByteArray = np.empty(0, np.uint8)

    @classmethod
    def of(cls, comm: Communicator | Channel) -> Channel:
        """Return a communicator's channel, which is made on first use; return a channel as it is."""
        if isinstance(comm, Channel):
            return comm
        bound = get_bound(comm)
        if is_mpi(bound):
            check_not_null(bound)
        channel = get_attached(bound)
        if not isinstance(channel, Channel):
            channel = cls(bound)
            attach(bound, channel)
        return channel

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the counts of bytes, for a checkpoint whose run goes on counting."""
        return {name: np.array(getattr(self, name), np.int64) for name in _COUNTS}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore the counts of bytes. With ``strict`` False, those of another rank are dropped.

        Raises:
            ValueError: a count is missing, or is no integer from 0 on. Nothing changes.
        """
        counts = {name: np.asarray(state.get(name)) for name in _COUNTS}
        for name, count in counts.items():
            if count.shape or count.dtype.kind not in "iu" or count < 0:
                raise ValueError(f"{name}: a Channel's state has an integer from 0 on")
        if strict:
            self.bytes_sent, self.calibration_bytes = map(int, counts.values())

    def channels(self) -> tuple[tuple[Channel, int]]:
        """Return this channel, and how many exchanges of it are one exchange of an end, as Sites do."""
        return ((self, 1),)

    def open(self) -> Channel:
        """Return the channel if it is usable.

        Raises:
            CollectiveError: it is closed, or belongs to the process that has forked this one.
            ValueError: its communicator was freed.
        """
        if os.getpid() != self._process:  # its connections would carry the bytes of two processes
            raise CollectiveError(
                f"rank {self.rank}: this communicator was made in process {self._process}, and cannot be used"
                f" in process {os.getpid()}; make one in each process, after the fork",
                reason="closed",
            )
        if self._mpi:
            check_not_null(self.comm)
        if self.closed is not None:
            raise CollectiveError(
                f"rank {self.rank}: this communicator was closed after an earlier error ({self.closed});"
                " its messages may still be in flight, so create another communicator, for example with"
                " comm.Split(), and continue on that",
                reason="closed",
            )
        return self

    @property
    def has_deadlines(self) -> bool:
        """Whether waits end after a time; a simulated rank waits until no rank can continue."""
        return not hasattr(self.comm, "block")

    def takes_device(self) -> bool:
        """Return whether this rank's MPI takes device memory; headers carry the answers of all ranks."""
        if self._takes_device is None:
            asked = self.device != "auto" or self._mpi
            self._takes_device = asked and may_take_device(self.comm, self.device)
        return self._takes_device

    def get_buffer(self, nbytes: int) -> ByteArray:
        """Return a work buffer, valid until the next call; up to 16 MiB are kept, to save the allocation."""
        if nbytes > MAX_KEPT_BUFFER:
            return np.empty(nbytes, np.uint8)
        if len(self._buffer) < nbytes:
            self._buffer = np.empty(nbytes, np.uint8)
        return self._buffer[:nbytes]

    def make_backoff(self, what: str, *, headers: bool = False) -> Backoff:
        """Return a Backoff for a wait.

        Args:
            what: name of the operation in a Timeout.
            headers: whether the ranks exchange headers. They may take ``compile_timeout`` if a rank compiles.
        """
        seconds = self.compile_timeout if headers and self.call.compilation_pending else self.timeout
        return Backoff(self.comm, seconds, what, self.meanwhile, roll_call=self.roll_call, needs_all=headers)

    def remember_union(self, signature: int, elements: int) -> None:
        """Store the size of the union of the ranks' supports for tensors with this signature."""
        self._union_sizes[signature] = elements

    def get_union(self, signature: int) -> int | None:
        """Return the size that ``remember_union`` stored, the same on all ranks, or None."""
        return self._union_sizes.get(signature)

    def remember_bounds(self, signature: int, bounds: list[int]) -> None:
        """Store the bounds of the ranks' ranges for tensors with this signature."""
        self._bounds[signature] = bounds

    def get_bounds(self, signature: int) -> list[int] | None:
        """Return the bounds that ``remember_bounds`` stored, the same on all ranks, or None."""
        return self._bounds.get(signature)

    def is_union_due(self, signature: int) -> bool:
        """Return whether the ranks should count the union again."""
        return signature not in self._union_sizes or self.sequence % UNION_COUNT_INTERVAL == 0

    def skip_to(self, sequence: int) -> None:
        """Count the exchanges before ``sequence`` as skipped, except those that were made."""
        missing = (sequence - self.sequence) % 2**64
        if missing < 2**63:
            self.sequence = sequence % 2**64

    @contextmanager
    def collective(self, *, headerless: bool = False) -> Iterator[Call]:
        """Guard an exchange, as the table of ``collectives.call`` says. A ``counted`` call contains it.

        All ranks raise a CollectiveError that comes from outside a transfer. The channel stays usable then.

        Args:
            headerless: whether the call exchanges no headers. The other ranks could then take another call's
                payloads for this one's, so the call counts as begun at once.

        Raises:
            CollectiveError: the channel is closed, or belongs to another process.
            ValueError: its communicator was freed.
        """
        call = self.open().call = Call(has_sent=headerless, first=self.sequence)
        first: BaseException | None = None
        start, sent = time.perf_counter(), self.bytes_sent
        try:
            try:
                yield call
                self.last = {
                    "exchange": call.first,
                    "bytes": self.bytes_sent - sent,
                    "seconds": time.perf_counter() - start,
                    "encoding": call.encoding,
                    "waiting": call.waiting,
                }
            except BaseException as error:
                first = error
                self._close_unless_complete(call, error)
                raise
        except BaseException as error:  # again, because an interrupt may have come between
            self._close_unless_complete(call, first or error)
            raise
        finally:
            first = None  # which refers to this frame

    def _close_unless_complete(self, call: Call, error: BaseException) -> None:
        """Close the channel if a call broke off where other ranks go on."""
        if call.has_sent and not (call.is_complete or is_shared(error)):
            self._close(error)

    def gather(
        self,
        block: ByteArray,
        out: ByteArray,
        what: str,
        places: tuple[Sequence[int], Sequence[int]] | None = None,
        *,
        headers: bool = False,
        finish: bool = True,
    ) -> None:
        """Gather every rank's block with one call of MPI.

        Args:
            block: this rank's bytes, contiguous.
            out: buffer for all blocks in rank order, of sum(counts) bytes.
            what: name of the operation in a Timeout.
            places: (counts, displacements) in bytes; None if all blocks have the same length.
            headers: whether the blocks are headers, as for ``make_backoff``.
            finish: whether an exception waits for the blocks, as for ``drive``.

        Raises:
            Timeout: nothing arrived during the channel's timeout; the channel is then closed.
            CollectiveError: the connection to a rank was lost; the channel is then closed.
        """
        backoff = self.make_backoff(what, headers=headers)
        requests: list[Request] = []

        def run() -> None:
            if not requests and places is None:
                self.begin(requests, self.comm.Iallgather, block, out)
            elif not requests:
                self.begin(requests, self.comm.Iallgatherv, block, [out, places])
            wait_all(backoff, requests)
            self.call.has_arrived = True

        self.drive(run, (requests, block, out), finish=finish)

    def begin(self, requests: list[Request], operation: Callable[..., Request], *arguments: Any) -> None:
        """Begin an operation of the communicator, and append its request.

        An interrupt comes before both or after both, if the operation is not written in Python, or has a
        thread (``Communicator``). If it comes between, nothing tells whether the operation has begun, so
        ``drive`` does not call this again.

        Args:
            requests: of the transfer.
            operation: a method of the communicator.
            arguments: of the method.
        """
        given = [iter([argument]) for argument in arguments]  # the call takes them before it begins
        append = partial(requests.extend, map(operation, *given))
        self.call.beginning = Beginning(given[0], requests, len(requests))
        if self._beginnings is None:
            append()  # without an instruction of Python between the call and the list
        else:
            run_uninterrupted(append, self._beginnings.submit)

    def drive(self, run: Callable[[], None], resources: object, *, finish: bool = True) -> None:
        """Run a transfer to its end.

        If one rank breaks off a transfer, some ranks complete it and others do not. So after an interrupt or
        a MemoryError, ``run`` is called once more to complete the transfer before the exception is raised. A
        second exception is raised at once. Errors of the transport itself are also raised at once, as
        CollectiveErrors with reason "transport".

        Args:
            run: the transfer; a second call continues the first one.
            resources: requests and buffers. MPI may still write into them if the transfer is not completed.
                So a closed channel keeps them, and its communicator keeps the channel.
            finish: whether an exception waits for the transfer. Headers without payloads do not wait: they
                may take as long as the slowest rank's computation, and no rank can complete the call without
                this one.
        """
        call, has_ended, start = self.call, False, time.perf_counter()
        call.has_sent = True
        try:
            try:
                run()
                call.is_delivered = call.is_final_transfer
                call.waiting += time.perf_counter() - start
            except BaseException as error:
                # A RuntimeError is one of the transport: a Timeout, or an error of MPI or gloo.
                is_interrupt = isinstance(error, Nested) or not isinstance(error, RuntimeError)
                if finish and is_interrupt and not call.has_lost_request:
                    with suppress(CollectiveError):
                        run()
                        call.is_delivered = call.is_final_transfer
                        has_ended = True  # ``collective`` closes the channel, unless the call goes on
                raise
        except BaseException as error:
            lost = None
            if is_transport_error(error):
                cause = str(error).partition(". ")[0]  # gloo adds sentences that do not help
                why = f"the connection to another rank was lost ({cause})"
                lost = self.roll_call.make_loss(why, self.timeout)
            if not (call.is_delivered or has_ended):
                self._abandoned.append(resources)
                self._close(lost or error)
            if lost is not None:
                raise lost from error
            raise

    def _close(self, error: BaseException) -> None:
        """Prevent further use of the channel, and of its communicator, which keeps the closed channel."""
        if self.closed is None:
            self.closed = str(error) or type(error).__name__
            if not self._mpi or self.comm:
                attach(self.comm, self)
                informed = isinstance(error, CollectiveError) and error.reason in ("timeout", "transport")
                if not informed:
                    self.roll_call.report(f"{type(error).__name__} {error}".strip())

    def __repr__(self) -> str:
        state = "closed" if self.closed is not None else f"sequence {self.sequence}"
        return f"<Channel of rank {self.rank} of {self.size}, {state}>"


def find_ends(comm: Any) -> Any:
    """Return Sites or a StoreComm as it is, and the Channel of a communicator."""
    is_end = not isinstance(comm, type) and getattr(comm, "is_end", None) is True
    return comm if is_end else Channel.of(comm)
