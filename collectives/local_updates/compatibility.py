"""Communicator of ``LocalUpdates``, and what cannot be used together with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import wirecodec as wc
from collectives.channel import find_ends
from collectives.cltk.allreduce import CLTk
from collectives.exchange.methods import SummingCompressor
from collectives.local_updates.outer import OuterSettings
from collectives.sites.sites import Sites
from collectives.store.communicator import StoreComm
from collectives.torch.arguments import is_ready


@dataclass(eq=False)
class Link:
    """The communicator of LocalUpdates, which ``rebind`` replaces."""

    comm: Any

    def find_channel(self) -> Any:
        """Return the present channel, Sites or StoreComm."""
        return find_ends(self.comm)

    def find_rank(self) -> int | None:
        """Return the rank by which a compressor compares a loaded state; None if it is not known yet."""
        if not is_ready(self.comm):
            return None
        channel = self.find_channel()
        rank: int = channel.across.rank if isinstance(channel, Sites) else channel.rank
        return rank


def check_method(settings: OuterSettings, compressor: Any) -> None:
    """Raise TypeError or ValueError unless a compressor can be used with these settings."""
    keep, schemes = settings.keep, getattr(compressor, "schemes", {})
    if settings.divide == "senders" and isinstance(compressor, SummingCompressor):
        raise ValueError(f"divide='senders' has no meaning with {type(compressor).__name__}")
    if settings.divide == "senders" and any(one.transform is not None for one in schemes.values()):
        raise ValueError("divide='senders' has no meaning with a transform: all ranks send every element")
    if keep and not isinstance(compressor, wc.Compressor):
        raise TypeError(f"keep needs a wirecodec.Compressor, not {type(compressor).__name__}")
    if keep and compressor.feedback is None:
        raise ValueError("keep is a share of the residual, which this Compressor does not have; pass keep=0")


def check_communicator(settings: OuterSettings, comm: Any, compressor: wc.Compressor | CLTk) -> None:
    """Raise TypeError or ValueError unless a communicator can be used with these settings."""
    if isinstance(comm, StoreComm):
        if settings.fragments != 1 or settings.delay:
            raise ValueError("over a StoreComm, fragments must be 1 and delay 0: a round has all parameters")
        if isinstance(compressor, CLTk | SummingCompressor):
            name = type(compressor).__name__
            raise TypeError(f"{name} needs ranks that stay; over a StoreComm, pass a wirecodec.Compressor")
    if settings.keep and isinstance(find_ends(comm), Sites | StoreComm):
        raise ValueError(
            "keep must be 0 over Sites, whose ranks have parts of residuals, and over a StoreComm"
        )
    if isinstance(find_ends(comm), Sites) and settings.divide == "senders":
        raise ValueError("divide='senders' has no meaning over Sites, where sums within a site are dense")


def find_range(comm: Any) -> tuple[int, int] | None:
    """Return what decides about a rank's range over Sites: its number in the site, and the site's size."""
    return (comm.local.rank, comm.local.size) if isinstance(comm, Sites) else None


def check_successor(
    before: Any, after: Any, used: tuple[int, int] | None, compressor: wc.Compressor | CLTk
) -> None:
    """Raise ValueError unless the state of ``LocalUpdates`` fits another communicator.

    Args:
        before, after: the present communicator, and that which takes its place.
        used: ``find_range`` at the last exchange.
        compressor: of this rank.
    """
    if isinstance(before, Sites) != isinstance(after, Sites):
        raise ValueError(
            "Sites cannot take the place of another communicator, nor it theirs: over Sites, residuals are of"
            " ranges, and frozen parameters are exchanged; make a new LocalUpdates with a new compressor"
        )
    if used is None or not isinstance(after, Sites):
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
