"""Communicator over one process group of torch. torch is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.communicator import Request, TransportError
from collectives.gloo.notices import StoreBoard
from collectives.waiting.board import Board
from collectives.waiting.worker import Worker

_UNUSED_TAG, _PROBE_TAG = 0x5745, 0x5746  # of messages that nobody sends, and that nobody receives
TIMEOUT_FRACTION = 0.9  # of the group's timeout, after which gloo raises an error that names no rank


class GroupComm:
    """Communicator over one process group, which satisfies Communicator.

    gloo reports the arrival of a message only to a thread that waits for it. So one thread waits for sends
    and another one for receives, each in the order in which they began.

    Args:
        group: a gloo group that contains this process, or one with gloo for the CPU. It need not be a group
            of ``torch.distributed``, so no default group is needed.

    Attributes:
        rank: of this process in the group.
        size: number of ranks.
        timeout: seconds that a Channel waits by default: 0.9 times the timeout of the group, which is 30
            minutes by default.
        beginnings: its thread begins operations for the main thread (``Communicator``).
        notices: board in the group's store, by which a Timeout names the missing ranks; None without a store.

    Raises:
        ValueError: this process is not in the group, or the group has no backend for the CPU.

    Payloads of an all-gather travel by gloo's own: 304 kB between two ranks take .4 ms, and 1.9 ms as
    messages.
    """

    gathers_any_size = True

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        if group is None or group is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(
                "this process is not in the group; make a TorchComm only on the ranks that new_group lists"
            )
        _require_cpu(group)
        self._dist = dist
        self._group = group
        self.rank: int = group.rank()
        self.size: int = group.size()
        self.timeout = TIMEOUT_FRACTION * _get_group_timeout(group)
        self.notices = _make_board(group, self.rank, self.size)
        self._gathers: Any = None
        self._probes: list[object] = []  # kept alive
        unblock = partial(_break_connections, group, (self.rank + 1) % self.size)
        self.beginnings = Worker("TorchComm: beginnings")
        self._sends = Worker("TorchComm: sends", unblock)
        self._receives = Worker("TorchComm: receives", unblock)

    @property
    def is_isolated(self) -> bool:
        """Whether ``isolate`` was called."""
        return self._gathers is not None

    def isolate(self, key: str) -> None:
        """Use connections of its own for all-gathers, beside other collectives of the group.

        gloo needs the same order of all collectives of a group on all ranks. While a thread exchanges
        buckets, DDP makes collectives of its own.

        Args:
            key: text for a key of the job's store, which was not used before; all ranks of the group call
                this together, with the same key.

        Raises:
            TransportError: a rank does not take part.
            ValueError: there is no default group, whose store the ranks need for this.
        """
        store = self._dist.PrefixStore(f"wirecodec/{key}", self._dist.distributed_c10d._get_default_store())
        timeout = timedelta(seconds=_get_group_timeout(self._group))
        with _translated():
            self._gathers = self._dist.ProcessGroupGloo(store, self.rank, self.size, timeout)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:  # noqa: N802 - MPI's names
        """Start to send.

        Args:
            buf: a contiguous array.
            dest: a rank.
            tag: of the message.
        """
        tensor = _as_tensor(buf, writes=False)
        if not len(tensor):
            return _CompletedRequest()
        with _translated():
            work = self._group.send([tensor], dest, tag)
        return _watch(self._sends, work, tensor)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Request:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array of the message's length.
            source: a rank.
            tag: of the message.
        """
        tensor = _as_tensor(buf, writes=True)
        if not len(tensor):
            return _CompletedRequest()
        with _translated():
            work = self._group.recv([tensor], source, tag)
        return _watch(self._receives, work, tensor)

    def find_closed(self) -> list[int]:
        """Return the ranks to which the connection is closed: a send to them fails at once.

        A message to another rank waits there for a receive that never comes, as the group is not used again.
        """
        import torch

        closed = []
        for rank in range(self.size):
            tensor = torch.zeros(1, dtype=torch.uint8, device="cpu")
            try:
                if rank != self.rank:
                    self._probes.append((self._group.send([tensor], rank, _PROBE_TAG), tensor))
            except RuntimeError:
                closed.append(rank)
        return closed

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal uint8 blocks from all ranks, in rank order."""
        block = _as_bytes(sendbuf)
        counts = [len(block)] * self.size
        return self.Iallgatherv(block, [recvbuf, (counts, [len(block) * k for k in range(self.size)])])

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [uint8 array, (counts, displacements)].

        gloo gathers only equal blocks, so shorter ones are padded.
        """
        import torch

        out, (counts, starts) = recvbuf
        widest = max(counts)
        if not widest:
            return _CompletedRequest()
        padded = torch.zeros(widest, dtype=torch.uint8, device="cpu")
        block, target = _as_bytes(sendbuf), _as_bytes(out)
        padded.numpy()[: len(block)] = block
        gathered = [torch.empty(widest, dtype=torch.uint8, device="cpu") for _ in range(self.size)]
        places = list(zip(starts, counts, strict=True))  # before it begins: an error would lose the request
        with _translated():
            group = self._group if self._gathers is None else self._gathers
            work = group.allgather([gathered], [padded], self._dist.distributed_c10d.AllgatherOptions())
        return _AllgatherRequest(work, padded, gathered, target, places)


def _require_cpu(group: Any) -> None:
    """Raise ValueError for a group that cannot send from the host, as one of NCCL cannot."""
    import torch

    if not hasattr(group, "_get_backend"):
        return
    try:
        group._get_backend(torch.device("cpu"))
    except RuntimeError as error:
        raise ValueError(
            "the process group has no backend for the CPU, and containers pass through the host; make a group"
            ' of gloo with the same ranks, torch.distributed.new_group(backend="gloo"), and pass it:'
            f" {error}"
        ) from error


def _break_connections(group: Any, other: int) -> None:
    """Make all waits of a group raise: gloo closes its connections after a receive with a timeout.

    A rank that ends while one of its threads waits for a rank that died would abort otherwise.
    """
    import torch

    with suppress(Exception):
        backend = group._get_backend(torch.device("cpu"))
        work = backend.recv([torch.zeros(1, dtype=torch.uint8, device="cpu")], other, _UNUSED_TAG)
        work.wait(timedelta(milliseconds=1))


@contextmanager
def _translated() -> Iterator[None]:
    """Raise a RuntimeError of torch, whose text names a port and no rank, as a TransportError."""
    try:
        yield
    except RuntimeError as error:
        raise TransportError(str(error)) from error


class _CompletedRequest:
    """Request that is complete from the start, of an empty message."""

    def Test(self) -> bool:  # noqa: N802
        """Return True."""
        return True


class _WatchedRequest:
    """Request that a thread waits for."""

    def __init__(self, work: Any, tensor: Any) -> None:
        self.work = work
        self.tensor = tensor  # kept alive
        self.is_finished = False
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Wait for the operation; the thread calls this."""
        try:
            self.work.wait()
        except BaseException as error:  # raised by Test
            self.error = error
        self.is_finished = True

    def Test(self) -> bool:  # noqa: N802
        """Return whether the operation is complete; raise its error if it failed."""
        if not self.is_finished:
            return False
        with _translated():
            if self.error is not None:
                raise self.error
        return True


def _watch(worker: Worker, work: Any, tensor: Any) -> _WatchedRequest:
    """Return a request that completes after the worker's thread has waited for ``work``."""
    request = _WatchedRequest(work, tensor)
    worker.submit(request.wait)
    return request


class _AllgatherRequest:
    """Request of an all-gather, which copies the blocks to their places when it completes."""

    def __init__(
        self, work: Any, padded: Any, gathered: Sequence[Any], out: Any, places: Sequence[tuple[int, int]]
    ) -> None:
        self._work = work
        self._padded = padded  # kept alive
        self._gathered = gathered
        self._out = out
        self._places = places
        self._complete = False

    def Test(self) -> bool:  # noqa: N802
        """Make progress; return True if the operation is complete."""
        if not self._complete and self._work.is_completed():
            with _translated():
                self._work.wait()
            for block, (start, count) in zip(self._gathered, self._places, strict=True):
                self._out[start : start + count] = block.numpy()[:count]
            self._complete = True
        return self._complete


def _get_group_timeout(group: Any) -> float:
    """Return the timeout of a group in seconds; torch's default if this version does not show it."""
    import torch
    from torch.distributed import constants

    with suppress(AttributeError, RuntimeError):
        seconds: float = group._get_backend(torch.device("cpu")).options._timeout.total_seconds()
        return seconds
    default: float = constants.default_pg_timeout.total_seconds()
    return default


def _make_board(group: Any, rank: int, size: int) -> Board | None:
    """Make a board with keys of this group in the store of the job; None if there is no store."""
    import torch.distributed as dist

    with suppress(AttributeError, RuntimeError, ValueError):
        store = dist.distributed_c10d._get_default_store()
        return StoreBoard(dist.PrefixStore(f"wirecodec/{group.group_name}", store), rank, size)
    return None


def _as_bytes(buf: Any) -> npt.NDArray[np.uint8]:
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    return array.reshape(-1).view(np.uint8)


def _as_tensor(buf: Any, *, writes: bool) -> Any:
    """View a contiguous array as a tensor of bytes; copy it if it is read-only."""
    import torch

    data = _as_bytes(buf)
    if writes and not data.flags.writeable:
        raise ValueError("the receive buffer is read-only; pass a writable array")
    return torch.from_numpy(data if data.flags.writeable else data.copy())
