"""Links of the soak: what connects the ranks in a call, and what they know of one that has broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mpi4py import MPI

import collectives as co
from tests.collectives.store.faulty import Faults

__all__ = ["Link", "StoreLink", "World"]

TIMEOUT = 60.0
SHORT = 6.0  # seconds, in steps in which a rank may close its channel

STORE: dict[str, Any] = {"deadline": 0.2, "poll": 0.02, "timeout": 8.0, "publish_every": 4, "keep": 8}


class Link(Protocol):
    """Connection of the ranks.

    Attributes:
        comm: is passed to the calls.
    """

    comm: Any

    def mark(self) -> Any:
        """Return where the rank is before a call."""
        ...

    def is_due(self, mark: Any, *, broke_off: bool) -> bool:
        """Return whether this rank has to make the call again.

        Args:
            mark: of the time before the call.
            broke_off: whether an exception of this rank alone has ended it, of which others have no error.
        """
        ...

    def report(self) -> object:
        """Return what all ranks have alike after a call."""
        ...

    def counts(self) -> bool:
        """Return whether the gradients of this rank are in the result of the last call."""
        ...

    def compare(self, verdict: str) -> str:
        """Return the part of a verdict that all ranks have alike."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the link can no longer be used."""
        ...

    def channels(self) -> tuple[co.Channel, ...]:
        """Return the channels."""
        ...


@dataclass
class ChannelLink:
    """Link by a channel."""

    comm: co.Channel

    def mark(self) -> Any:
        return self.comm.call

    def is_due(self, mark: Any, *, broke_off: bool) -> bool:
        is_made = self.comm.call is not mark and self.comm.call.is_delivered
        return broke_off and not self.is_closed and not is_made

    def report(self) -> object:
        return None

    def counts(self) -> bool:
        return True

    def compare(self, verdict: str) -> str:
        return verdict

    @property
    def is_closed(self) -> bool:
        return self.comm.closed is not None

    def channels(self) -> tuple[co.Channel, ...]:
        return (self.comm,)


@dataclass
class SitesLink:
    """Link by sites, whose first call compares the sizes."""

    comm: co.Sites

    def mark(self) -> Any:
        local, has_compared = self.comm.local, self.comm.compared is not None
        return local.call, local.sequence + (2 if has_compared else 4)

    def is_due(self, mark: Any, *, broke_off: bool) -> bool:
        before, end = mark
        local = self.comm.local
        is_made = local.call is not before and local.call.is_delivered and local.sequence == end
        return broke_off and not self.is_closed and not is_made

    def report(self) -> object:
        return None

    def counts(self) -> bool:
        return True

    def compare(self, verdict: str) -> str:
        return (
            "ok" if verdict == "ok" else "failed"
        )  # groups have texts of their own, and learn of the others'

    @property
    def is_closed(self) -> bool:
        return self.comm.closed is not None

    def channels(self) -> tuple[co.Channel, ...]:
        return self.comm.local, self.comm.across


@dataclass
class StoreLink:
    """Link by a run in a folder, in which a call is due until its round is decided.

    Attributes:
        folder: of the run.
        faults: of the requests of this rank.
        ranks: number of those in the run.
    """

    comm: co.StoreComm
    folder: Path
    faults: Faults
    ranks: int
    is_closed: bool = False

    def mark(self) -> Any:
        return self.comm.locate()

    def is_due(self, mark: Any, *, broke_off: bool) -> bool:
        return bool(self.comm.round == mark)

    def report(self) -> object:
        last = self.comm.last
        return None if last is None else (last.number, last.members)

    def counts(self) -> bool:
        last = self.comm.last
        return last is not None and self.comm.name in last.members

    def compare(self, verdict: str) -> str:
        return verdict

    def channels(self) -> tuple[co.Channel, ...]:
        return ()


class FaultyFolder:
    """Folder of a run whose requests have the faults of a rank."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("read", "put", "create", "entries", "delete", "delete_folder"):
            return found

        def request(path: str, *arguments: Any) -> Any:
            self._faults.begin(name, path)
            answer = found(path, *arguments)
            if name in ("put", "create"):
                self._faults.end_write()
            return answer

        return request

    def below(self, name: str) -> FaultyFolder:
        return FaultyFolder(self._inner.below(name), self._faults)


@dataclass
class World:
    """All links of a rank.

    Attributes:
        folder: of the runs of all ranks.
        side: communicator by which the soak compares the ranks.
        faults: of the requests of this rank.
    """

    folder: Path
    side: Any = field(default_factory=MPI.COMM_WORLD.Dup)
    faults: Faults = field(default_factory=Faults)
    _comms: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rank, self.size = self.side.rank, self.side.size
        self.open()

    def open(self) -> None:
        """Connect all ranks by new communicators. Those with a closed channel may have messages in flight."""
        if self._comms and not any(self.side.allgather(self._is_closed())):
            for comm in self._comms:
                comm.Free()
        width = 2 if self.size % 2 == 0 else 1
        whole = MPI.COMM_WORLD.Dup()
        self._comms = [whole, whole.Split(self.rank // width), whole.Split(self.rank % width)]
        channel, local, across = (co.Channel(comm, timeout=TIMEOUT) for comm in self._comms)
        self.channel, self.sites = ChannelLink(channel), SitesLink(co.Sites(local, across))

    def _is_closed(self) -> bool:
        return self.channel.is_closed or self.sites.is_closed

    def connect(self, run: str, missing: int = 0) -> StoreLink:
        """Connect this rank to a run, which it continues if there is one.

        Args:
            run: name of it.
            missing: number of ranks without which a round is decided.
        """
        name, url, quorum = f"r{self.rank}", str(self.folder / "runs"), self.size - missing
        comm = co.StoreComm(url, run, name, quorum=quorum, resume=True, **STORE)
        files: Any = comm._place.files
        files._folder = FaultyFolder(files._folder, self.faults)
        comm.locate()
        self.side.Barrier()  # otherwise a rank could begin after the first round
        return StoreLink(comm, self.folder / "runs" / run, self.faults, self.size)

    def connect_alone(self, run: str) -> StoreLink:
        """Connect this rank to a run of its own."""
        url, run = str(self.folder / "alone"), f"{run}-r{self.rank}"
        comm = co.StoreComm(url, run, "a", quorum=1, resume=True, **STORE)
        return StoreLink(comm, self.folder, self.faults, 1)

    @contextmanager
    def impatient(self, link: Link) -> Iterator[None]:
        """Let ranks wait for a shorter time; all of them enter this together."""
        for channel in link.channels():
            channel.timeout = SHORT
        try:
            yield
        finally:
            for channel in link.channels():
                channel.timeout = TIMEOUT


Connect = Callable[[World, str], Link]
"""Returns the link of a method, from the name of its run."""
