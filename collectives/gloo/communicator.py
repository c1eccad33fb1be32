"""TorchComm: a communicator over torch.distributed, bound to its group when it is first used."""

from __future__ import annotations

from typing import Any

from collectives.communicator import Request
from collectives.gloo.group import GroupComm
from collectives.waiting.board import Board


class TorchComm:
    """Communicator over a torch.distributed process group, which satisfies Communicator.

    Args:
        group: a gloo group that contains this process; None for the group of all processes. Containers pass
            through the host, also those of gradients on a GPU, so beside NCCL make a group of gloo, or call
            ``init_process_group("cpu:gloo,cuda:nccl")``. A function that
            returns the present group if groups are replaced, as torchft does: it is called at the beginning
            of each exchange, and a new group gets a new Channel. With None or a function, the object may be
            made before ``init_process_group``. A group need not belong to ``torch.distributed``.

    Attributes:
        rank: of this process in the group.
        size: number of ranks.
        timeout: seconds that a Channel waits by default: 0.9 times the timeout of the group, which is 30
            minutes by default.

    Raises:
        ImportError: torch is missing.
        ValueError: this process is not in the group; or at first use, there is no group.

    Payloads of an all-gather travel by gloo's own: 304 kB between two ranks take .4 ms, and 1.9 ms as
    messages.

    A message that gloo cannot send or receive raises TransportError, and CollectiveError in a collective.

    Examples:
        >>> import collectives as co, torch.distributed as dist  # doctest: +SKIP
        >>> dist.init_process_group("gloo")  # doctest: +SKIP
        >>> mean = co.allreduce(co.TorchComm(), grad, "topk(0.01) | rice | qsgd")  # doctest: +SKIP
    """

    gathers_any_size = True

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        self._group = group
        self._bound: tuple[Any, GroupComm] | None = None
        is_ready = dist.is_initialized() if group is None else not _is_function(group)
        if is_ready:
            self.bound()  # an error is best raised here

    @property
    def is_ready(self) -> bool:
        """Whether there is a group, so that the ranks can exchange."""
        if self._bound is not None or not (self._group is None or _is_function(self._group)):
            return True
        return self._find_group() is not None

    def bound(self) -> GroupComm:
        """Return the communicator over the present group; each group has one.

        Raises:
            ValueError: there is no group, or this process is not in it.
        """
        group = self._find_group()
        if group is None and (self._group is None or _is_function(self._group)):
            raise ValueError(
                "there is no process group yet: call torch.distributed.init_process_group before the first"
                " exchange"
            )
        if self._bound is None or self._bound[0] is not group:
            self._bound = group, GroupComm(group)
        return self._bound[1]

    def _find_group(self) -> Any:
        """Return the present group, or None."""
        import torch.distributed as dist

        if self._group is None:
            return dist.group.WORLD if dist.is_initialized() else None
        return self._group() if _is_function(self._group) else self._group

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return self.bound().rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.bound().size

    @property
    def timeout(self) -> float:
        """Seconds that a Channel waits by default."""
        return self.bound().timeout

    @property
    def notices(self) -> Board | None:
        """Board by which a Timeout names the missing ranks; None without a store."""
        return self.bound().notices

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:  # noqa: N802 - MPI's names
        """Start to send a contiguous array to a rank."""
        return self.bound().Isend(buf, dest, tag)

    def Irecv(self, buf: Any, source: int, tag: int = 0) -> Request:  # noqa: N802
        """Start to receive a message of a rank, which has the length of the contiguous array."""
        return self.bound().Irecv(buf, source, tag)

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather equal uint8 blocks from all ranks, in rank order."""
        return self.bound().Iallgather(sendbuf, recvbuf)

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:  # noqa: N802
        """Start to gather blocks of any length: recvbuf = [uint8 array, (counts, displacements)]."""
        return self.bound().Iallgatherv(sendbuf, recvbuf)

    def __repr__(self) -> str:
        """Return the rank and the size, if there is a group."""
        if not self.is_ready:
            return "<TorchComm without a group yet>"
        return f"<TorchComm of rank {self.rank} of {self.size}>"


def _is_function(group: Any) -> bool:
    """Return whether an argument is a function that returns a group, and not a group itself."""
    return callable(group) and not hasattr(group, "allgather")
