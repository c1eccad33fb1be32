"""A torch.distributed process group as a communicator. torch is imported on first use."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.communicator import Request

__all__ = ["TorchComm"]


class TorchComm:
    """A torch.distributed process group that satisfies ``collectives.communicator.Communicator``.

    Args:
        group: a gloo group of which this process is a member; the default group without one.

    gloo tells nobody whether a message has arrived before somebody waits for it, so two threads wait, one for
    what is sent and one for what is received, each in the order in which it began.
    """

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = dist.group.WORLD if group is None else group
        self.rank: int = dist.get_rank(self._group)
        self.size: int = dist.get_world_size(self._group)
        self._sends, self._receives = _Waiter("sends"), _Waiter("receives")

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:  # noqa: N802 - MPI's names
        """Start to send.

        Args:
            buf: a contiguous array.
            dest: a rank.
            tag: of the message.
        """
        tensor = _tensor_of(buf, writes=False)
        if not len(tensor):
            return _Done()
        work = self._dist.isend(tensor, group=self._group, group_dst=dest, tag=tag)
        return self._sends.watch(work, tensor)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Request:  # noqa: N802
        """Start to receive.

        Args:
            buf: a contiguous array of the message's length.
            source: a rank.
            tag: of the message.
        """
        tensor = _tensor_of(buf, writes=True)
        if not len(tensor):
            return _Done()
        work = self._dist.irecv(tensor, group=self._group, group_src=source, tag=tag)
        return self._receives.watch(work, tensor)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal uint8 blocks from all ranks, in rank order."""
        block = _octets(sendbuf)
        counts = [len(block)] * self.size
        return self.Iallgatherv(block, [recvbuf, (counts, [len(block) * k for k in range(self.size)])])

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [uint8 array, (counts, displacements)].

        gloo gathers equal blocks only, so shorter ones travel with padding.
        """
        import torch

        out, (counts, starts) = recvbuf
        widest = max(counts)
        if not widest:
            return _Done()
        padded = torch.zeros(widest, dtype=torch.uint8)
        block = _octets(sendbuf)
        padded.numpy()[: len(block)] = block
        gathered = [torch.empty(widest, dtype=torch.uint8) for _ in range(self.size)]
        work = self._dist.all_gather(gathered, padded, group=self._group, async_op=True)
        return _Gathered(work, padded, gathered, _octets(out), list(zip(starts, counts, strict=True)))


class _Done:
    """A request with nothing to do."""

    def Test(self) -> bool:  # noqa: N802
        """It is complete."""
        return True


class _Watched:
    """A request that a thread waits for."""

    def __init__(self, work: Any, tensor: Any) -> None:
        self.work = work
        self.tensor = tensor  # kept alive
        self.finished = threading.Event()
        self.error: BaseException | None = None

    def Test(self) -> bool:  # noqa: N802
        """Whether it is complete; raises what went wrong with it."""
        if not self.finished.is_set():
            return False
        if self.error is not None:
            raise self.error
        return True


class _Waiter:
    """A thread that waits for one request after the other."""

    def __init__(self, what: str) -> None:
        self._requests: queue.SimpleQueue[_Watched] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"TorchComm: {what}", daemon=True).start()

    def watch(self, work: Any, tensor: Any) -> _Watched:
        """A request that is complete once ``work`` is."""
        request = _Watched(work, tensor)
        self._requests.put(request)
        return request

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            try:
                request.work.wait()
            except BaseException as error:  # raised where the request is tested
                request.error = error
            request.finished.set()


class _Gathered:
    """An all-gather under way; the blocks are put in place once it is complete."""

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
        """Make progress; True once the operation is complete."""
        if not self._complete and self._work.is_completed():
            self._work.wait()
            for block, (start, count) in zip(self._gathered, self._places, strict=True):
                self._out[start : start + count] = block.numpy()[:count]
            self._complete = True
        return self._complete


def _octets(buf: Any) -> npt.NDArray[np.uint8]:
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, np.uint8)
    return array.reshape(-1).view(np.uint8)


def _tensor_of(buf: Any, *, writes: bool) -> Any:
    """The bytes of a contiguous array as a tensor that shares them, but for what is read-only."""
    import torch

    octets = _octets(buf)
    if writes and not octets.flags.writeable:
        raise ValueError("a read-only array cannot receive")
    return torch.from_numpy(octets if octets.flags.writeable else octets.copy())
