"""Segments between neighbours: what the ring, the pairwise exchange and the chain have in common.

A transfer is an ordered list of segments to receive and one of segments to send, all below MPI's eager limit.
Receives are posted ahead; a rank sends no further ahead than its neighbour is known to keep up, so that
nobody has to buffer much. Open MPI's rendezvous protocol over TCP, which larger messages take, is nearly
half-duplex: 1.5 to 3 times as long. Segments also keep every MPI count far below 2^31.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.channel import TAG, Channel
from collectives.communicator import Request

__all__ = ["AHEAD", "NATIVE_BELOW", "SEGMENT", "Octets", "Side", "cut", "segments_of", "transfer"]

Octets: TypeAlias = npt.NDArray[np.uint8]

NATIVE_BELOW = 32 * 1024  # total bytes; below, one native call has less latency than rounds of messages
SEGMENT = 60 * 1024  # bytes; Open MPI's eager limit is 64 KiB with its own headers
AHEAD = 64  # segments under way at once in each direction, 3.75 MiB: what a slow neighbour may have to buffer


@dataclass(frozen=True)
class Side:
    """One direction of a transfer.

    Attributes:
        rank: the neighbour.
        segments: in the order in which they travel.
        count: how many there are.
        own: of the segments to send, how many are there from the start; the others are, one by one, those
            that came in.
    """

    rank: int
    segments: Iterable[Octets]
    count: int
    own: int = 0

    @classmethod
    def whole(cls, rank: int, block: Octets, segment: int = SEGMENT) -> Side:
        """One block, all of it there.

        Args:
            rank: the neighbour.
            block: contiguous.
            segment: bytes of a message.
        """
        count = segments_of(len(block), segment)
        return cls(rank, cut(block, segment), count, count)


def segments_of(nbytes: int, segment: int = SEGMENT) -> int:
    """How many segments a block takes."""
    return -(-nbytes // segment)


def cut(block: Octets, segment: int = SEGMENT) -> Iterator[Octets]:
    """A block's segments, as views."""
    for start in range(0, len(block), segment):
        yield block[start : start + segment]


def transfer(channel: Channel, arriving: Side, leaving: Side, what: str) -> None:
    """Receive all of one side while sending all of the other.

    Args:
        channel: open; the neighbours do the same with the sides exchanged.
        arriving: segments are filled in this order.
        leaving: segments are sent in this order.
        what: this is, named in a Timeout.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    comm = channel.comm
    to_receive, to_send = arriving.count, leaving.count
    incoming, outgoing = iter(arriving.segments), iter(leaving.segments)
    receives: deque[Request] = deque()
    sends: deque[Request] = deque()
    posted = received = sent = 0
    patience = channel.patience(what)
    with channel.guard(receives, sends):
        while received < to_receive or sent < to_send or sends:
            while posted < to_receive and len(receives) < AHEAD:
                receives.append(comm.Irecv(next(incoming), arriving.rank, TAG))
                posted += 1
            # One's own could leave at once, but a slower neighbour would have to buffer it: stay close to
            # what came in, for as long as anything is to come.
            here = min(to_send, leaving.own + received)
            limit = here if received == to_receive else min(here, received + AHEAD)
            while sent < limit and len(sends) < AHEAD:
                sends.append(comm.Isend(next(outgoing), leaving.rank, TAG))
                sent += 1
            before = received, len(sends)
            while receives and receives[0].Test():
                receives.popleft()
                received += 1
            while sends and sends[0].Test():
                sends.popleft()
            if (received, len(sends)) != before:
                patience.progress()
            elif receives or sends:
                patience.pause([*receives, *sends])
