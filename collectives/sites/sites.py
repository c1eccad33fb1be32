"""Sites: the ranks of one site, and the ranks with the same number in all sites.

    site 0   rank 0   rank 1   rank 2   rank 3      ◄─ local, of site 0
    site 1   rank 0   rank 1   rank 2   rank 3
               ▲
               └─ across, of the ranks 0

Dense gradients are added within a site, and each rank exchanges its part of the sum with the ranks of the
same number in the other sites (``collectives.sites.exchange``). So the bytes between two sites are those of
one rank.
"""

from __future__ import annotations

import os
import struct
from typing import Any, ClassVar

from collectives.channel import ByteArray, Channel
from collectives.communicator import Communicator, is_mpi
from collectives.errors import CollectiveError, name_kind
from collectives.gloo.communicator import TorchComm
from collectives.sites.course import relay
from collectives.waiting.worker import Worker

_SIZES = struct.Struct("<QQQ")


class Sites:
    """Two communicators: of the ranks of this site, and of the ranks with this rank's number in all sites.

    ``allreduce``, ``average_gradients``, ``torch_hook``, ``CLTk`` and ``LocalUpdates`` take it in place of a
    communicator. All sites have equally many ranks. At the first exchange, all ranks compare the sizes.

    Args:
        local: communicator, or its Channel, of the ranks of this site, with fast links.
        across: communicator, or its Channel, of one rank per site: those with the same number in ``local``,
            in the same order everywhere.

    Attributes:
        compared: the channels whose sizes all ranks have compared, or None. After an error of a call that
            other ranks share, it is None on all of them, so that all begin the next one with a comparison.

    Examples:
        >>> from mpi4py import MPI  # doctest: +SKIP
        >>> sites = co.Sites.of(MPI.COMM_WORLD)  # doctest: +SKIP
        >>> mean = co.allreduce(sites, {"w": grad}, compressor)  # doctest: +SKIP
    """

    is_end: ClassVar[bool] = True

    def __init__(self, local: Communicator | Channel, across: Communicator | Channel) -> None:
        if local is across:
            raise ValueError(
                "local and across are one communicator; pass two communicators, as a copy by Dup"
            )
        self._local, self._across = local, across
        self.compared: tuple[Channel, Channel] | None = None

    @classmethod
    def of(cls, comm: Any = None) -> Sites:
        """Divide ranks into sites; all ranks call this together.

        Args:
            comm: an mpi4py communicator: each node is a site. A torch DeviceMesh of two dimensions: sites,
                and ranks of a site. None for the ranks of torch.distributed: each host is a site, as torchrun
                counts its ranks in LOCAL_WORLD_SIZE.

        Raises:
            TypeError: comm is of another kind.
            ValueError: the mesh has another number of dimensions, or LOCAL_WORLD_SIZE does not divide the
                number of ranks.
        """
        if is_mpi(comm) and not isinstance(comm, type):
            from mpi4py import MPI

            local = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.rank)
            return cls(local, comm.Split(local.rank, comm.rank))
        if comm is None:
            return cls(*_divide_by_hosts())
        if hasattr(comm, "get_group") and hasattr(comm, "ndim") and not isinstance(comm, type):
            if comm.ndim != 2:
                raise ValueError(f"the mesh has {comm.ndim} dimensions; it must have two: sites, their ranks")
            return cls(TorchComm(comm.get_group(1)), TorchComm(comm.get_group(0)))
        raise TypeError(
            f"comm is {name_kind(comm)}; pass an mpi4py communicator, a torch DeviceMesh, or None;"
            " or make Sites(local, across) from two communicators"
        )

    @property
    def local(self) -> Channel:
        """The channel of this site."""
        return Channel.of(self._local)

    @property
    def across(self) -> Channel:
        """The channel of this rank's number in all sites."""
        return Channel.of(self._across)

    def channels(self) -> tuple[tuple[Channel, int], tuple[Channel, int]]:
        """Return both channels, and how many exchanges of each are one exchange between the sites."""
        return (self.local, 2), (self.across, 1)

    @property
    def rank(self) -> int:
        """This process's number among all: those of site 0, then those of site 1, …."""
        return self.across.rank * self.local.size + self.local.rank

    @property
    def size(self) -> int:
        """Number of ranks in all sites."""
        return self.across.size * self.local.size

    @property
    def worker(self) -> Worker:
        """The thread that exchanges for a hook."""
        return self.across.worker

    @property
    def closed(self) -> str | None:
        """The reason why one of the channels can no longer be used, or None."""
        return self.local.closed or self.across.closed

    def compare_sizes(self) -> None:
        """Compare the sizes once, on all ranks together.

        Raises CollectiveError on all ranks if sites have different numbers of ranks, or ranks another order.
        """
        both = self.local, self.across
        if self.compared == both:
            return
        own = _SIZES.pack(self.local.size, self.across.size, self.across.rank)

        def vote(rows: list[ByteArray]) -> bytes:
            sizes = self.local.size, self.across.size
            return own + bytes([all(_SIZES.unpack(blob.tobytes())[:2] == sizes for blob in rows)])

        # Ranks of a larger site that have no partner in a smaller one learn of that from their neighbours.
        votes = relay(self.local, self.across, lambda: own, vote, "sizes of the sites")
        same = all(blob.tobytes()[: _SIZES.size] == own for blob in votes)
        if not (same and all(blob[-1] for blob in votes)):
            raise CollectiveError(
                f"rank {self.rank}: sites must have equally many ranks, in the same order in all of them;"
                f" this site has {self.local.size}, and is number {self.across.rank} of {self.across.size}",
                reason="argument",
            )
        self.compared = both

    def __repr__(self) -> str:
        """Return this rank's place."""
        return (
            f"<Sites: rank {self.local.rank} of {self.local.size} in site {self.across.rank} of"
            f" {self.across.size}>"
        )


def _divide_by_hosts() -> tuple[Communicator, Communicator]:
    """Make the groups of the ranks of torch.distributed; torchrun numbers those of a host in sequence."""
    import torch.distributed as dist

    size, rank = dist.get_world_size(), dist.get_rank()
    width = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if width < 1 or size % width:
        raise ValueError(f"LOCAL_WORLD_SIZE is {width}, which does not divide the {size} ranks")
    rows = [list(range(first, first + width)) for first in range(0, size, width)]
    groups = {}
    for ranks in [*rows, *map(list, zip(*rows, strict=True))]:  # all ranks make all groups, in one order
        groups[tuple(ranks)] = dist.new_group(ranks)
    local = next(groups[tuple(ranks)] for ranks in rows if rank in ranks)
    across = groups[tuple(range(rank % width, size, width))]
    return TorchComm(local), TorchComm(across)
