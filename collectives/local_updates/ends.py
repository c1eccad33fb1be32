"""Kinds of communicators of ``LocalUpdates``, and what cannot be used together with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from collectives.channel import Channel
from collectives.local_updates.outer import OuterSettings
from collectives.local_updates.outer_loop import OuterLoop, Rounds
from collectives.local_updates.over_store import StoreRounds
from collectives.local_updates.ranks import RankRounds, find_range
from collectives.methods import Method
from collectives.sites.sites import Sites
from collectives.store.communicator import StoreComm
from collectives.torch.arguments import is_ready


@dataclass(frozen=True)
class EndKind:
    """Kind of a communicator.

    Attributes:
        make_rounds: returns the exchanges of an outer loop over an end.
        get_rank: returns the rank by which a compressor compares a loaded state.
        is_own_end: whether it is an end itself, not a communicator with a channel.
        is_divided: whether ranks have parts of residuals, by their place in a site.
        has_members: whether peers come and go, and each exchange is a round with members of its own.
    """

    make_rounds: Callable[[OuterLoop, Any], Rounds] = RankRounds
    get_rank: Callable[[Any], int] = attrgetter("rank")
    is_own_end: bool = False
    is_divided: bool = False
    has_members: bool = False

    @classmethod
    def of(cls, comm: Any) -> EndKind:
        """Return the kind of a communicator."""
        return next((KINDS[kind] for kind in type(comm).__mro__ if kind in KINDS), RANKS)


RANKS = EndKind()
"""Ranks that stay."""
KINDS: Mapping[type, EndKind] = {
    Channel: EndKind(is_own_end=True),
    Sites: EndKind(
        partial(RankRounds, is_divided=True), attrgetter("across.rank"), is_own_end=True, is_divided=True
    ),
    StoreComm: EndKind(StoreRounds, is_own_end=True, has_members=True),
}
"""Kinds by class; communicators of all other classes are of the kind ``RANKS``."""


class Link:
    """Communicator of LocalUpdates, which ``rebind`` replaces.

    Args:
        comm: the communicator.

    Attributes:
        comm: the communicator.
        kind: of it.
        find: returns its channel, or itself if it is Sites or a StoreComm.
        rounds: exchanges over it; None before the first one.
    """

    comm: Any
    kind: EndKind
    find: Callable[[], Any]

    def __init__(self, comm: Any) -> None:
        self.rounds: Any = None
        self.bind(comm)

    def bind(self, comm: Any) -> None:
        """Take a communicator in place of the present one; no interrupt leaves a part of either."""
        kind = EndKind.of(comm)
        find = (lambda: comm) if kind.is_own_end else partial(Channel.of, comm)
        vars(self).update(comm=comm, kind=kind, find=find)

    def find_rounds(self, outer: OuterLoop) -> Any:
        """Return the exchanges of an outer loop over the present end."""
        end = self.find()
        if self.rounds is None or self.rounds.end is not end:
            self.rounds = self.kind.make_rounds(outer, end)
        return self.rounds

    def find_rank(self) -> int | None:
        """Return the rank by which a compressor compares a loaded state; None if it is not known yet."""
        return self.kind.get_rank(self.find()) if is_ready(self.comm) else None


def check_method(settings: OuterSettings, compressor: Any) -> None:
    """Raise TypeError or ValueError unless a compressor can be used with these settings."""
    keep, schemes, method = settings.keep, getattr(compressor, "schemes", {}), Method.of(compressor)
    if settings.divide == "senders" and method.reduce_by_senders is None:
        raise ValueError(f"divide='senders' has no meaning with {type(compressor).__name__}")
    if settings.divide == "senders" and any(one.transform is not None for one in schemes.values()):
        raise ValueError("divide='senders' has no meaning with a transform: all ranks send every element")
    if keep and not method.has_residuals:
        raise TypeError(f"keep needs a wirecodec.Compressor, not {type(compressor).__name__}")
    if keep and compressor.feedback is None:
        raise ValueError("keep is a share of the residual, which this Compressor does not have; pass keep=0")


def check_communicator(settings: OuterSettings, comm: Any, compressor: Any) -> None:
    """Raise TypeError or ValueError unless a communicator can be used with these settings."""
    link = Link(comm)
    link.find()  # raises TypeError for any other object
    if link.kind.has_members:
        if settings.fragments != 1 or settings.delay:
            raise ValueError("over a StoreComm, fragments must be 1 and delay 0: a round has all parameters")
        if Method.of(compressor).needs_ranks:
            name = type(compressor).__name__
            raise TypeError(f"{name} needs ranks that stay; over a StoreComm, pass a wirecodec.Compressor")
    if settings.keep and (link.kind.is_divided or link.kind.has_members):
        raise ValueError(
            "keep must be 0 over Sites, whose ranks have parts of residuals, and over a StoreComm"
        )
    if link.kind.is_divided and settings.divide == "senders":
        raise ValueError("divide='senders' has no meaning over Sites, where sums within a site are dense")


def check_successor(before: Link, after: Any, used: tuple[int, int] | None, compressor: Any) -> None:
    """Raise ValueError unless the state of ``LocalUpdates`` fits another communicator.

    Args:
        before: the present communicator.
        after: that which takes its place.
        used: ``find_range`` at the last exchange.
        compressor: of this rank.
    """
    kind = EndKind.of(after)
    if before.kind.is_divided != kind.is_divided:
        raise ValueError(
            "Sites cannot take the place of another communicator, nor it theirs: over Sites, residuals are of"
            " ranges, and frozen parameters are exchanged; make a new LocalUpdates with a new compressor"
        )
    if used is None or not kind.is_divided:
        return
    if not is_ready(after):
        raise ValueError("the groups of Sites must exist: residuals are of ranges, which depend on them")
    keeps_ranges = any("/" in key for key in compressor.state_dict())  # residual/w, momentum/w, …
    if find_range(after) != used and keeps_ranges:
        raise ValueError(
            f"this rank was number {used[0]} of {used[1]} in its site, and is now {after.local.rank} of"
            f" {after.local.size}: its residuals are of another range; make a new LocalUpdates with a new"
            " compressor"
        )
