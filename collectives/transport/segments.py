"""Segments between neighbours: what the ring, the pairwise exchange and the chain have in common.

A transfer is an ordered list of segments to receive and one of segments to send, all below MPI's eager limit.
Receives are posted ahead; a rank sends no further ahead than its neighbour is known to keep up, so that
nobody has to buffer much. Open MPI's rendezvous protocol over TCP, which larger messages take, is nearly
half-duplex: 1.5 to 3 times as long. Segments also keep every MPI count far below 2^31.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from collectives.channel import TAG, Channel, Octets
from collectives.communicator import Request

__all__ = [
    "AHEAD",
    "NATIVE_BELOW",
    "SEGMENT",
    "Octets",
    "Side",
    "cut",
    "evenly",
    "in_step",
    "segments_of",
    "transfer",
]

NATIVE_BELOW = 32 * 1024  # total bytes; below, one native call has less latency than rounds of messages
SEGMENT = 60 * 1024  # bytes; Open MPI's eager limit is 64 KiB with its own headers
AHEAD = 16  # segments under way at once in each direction: enough for 10 Gbit/s, and partners stay in step


@dataclass(frozen=True)
class Side:
    """One direction of a transfer.

    Attributes:
        segments: views in the order in which they travel, each with the rank that it comes from or goes to.
            They are listed before the first one travels, so that a transfer can be taken up again.
    """

    segments: Sequence[tuple[int, Octets]]

    @classmethod
    def of(cls, blocks: Sequence[tuple[int, Octets]], segment: int = SEGMENT) -> Side:
        """Blocks that travel one after another.

        Args:
            blocks: contiguous, each with the rank that it comes from or goes to.
            segment: bytes of a message.
        """
        return cls([each for rank, block in blocks for each in cut(rank, block, segment)])

    @classmethod
    def in_turn(cls, blocks: Sequence[tuple[int, Octets]], segment: int = SEGMENT) -> Side:
        """Blocks that travel side by side: the first segment of each, then the second of each, and so on.

        Args:
            blocks, segment: as for ``of``.
        """
        longest = max((len(block) for _, block in blocks), default=0)
        return cls(
            [
                (rank, block[start : start + segment])
                for start in range(0, longest, segment)
                for rank, block in blocks
                if start < len(block)
            ]
        )

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.segments)


def segments_of(nbytes: int, segment: int = SEGMENT) -> int:
    """How many segments a block takes."""
    return -(-nbytes // segment)


def evenly(nbytes: int, least: int = 1) -> int:
    """Bytes of a segment where a block is cut into equal ones: a short one at its end would cost as much.

    Args:
        nbytes: of the block, at least 1.
        least: how many segments there are to be, at least.
    """
    return -(-nbytes // max(least, segments_of(nbytes)))


def cut(rank: int, block: Octets, segment: int = SEGMENT) -> list[tuple[int, Octets]]:
    """A block's segments, as views, each with the rank."""
    return [(rank, block[start : start + segment]) for start in range(0, len(block), segment)]


def in_step(
    arriving: Sequence[Octets],
    leaving: Sequence[Octets],
    passed_from: int | None = None,
    segment: int = SEGMENT,
) -> Callable[[int], int]:
    """How many segments may leave once so many came in, where rounds of all ranks follow one another.

    All of the rounds before may leave, and AHEAD more than came in of this one. So a rank waits only for one
    that is in an earlier round, or behind it in the same one, and n ranks cannot do so in a circle, however
    much longer one block is than another.

    Args:
        arriving, leaving: the block of each round.
        passed_from: the first round whose block is what came in in the round before, as it was or summed up;
            None where there is no such round.
        segment: bytes of a message.
    """
    came = list(accumulate((segments_of(len(block), segment) for block in arriving), initial=0))
    went = list(accumulate((segments_of(len(block), segment) for block in leaving), initial=0))
    own = len(leaving) if passed_from is None else passed_from

    def ready(received: int) -> int:
        current = bisect_right(came, received) - 1
        within = received - came[current]
        there = went[own] if current + 1 < own else went[current + 1] + within
        return min(went[current] + within + AHEAD, there)

    return ready


def transfer(
    channel: Channel,
    arriving: Side,
    leaving: Side,
    ready: Callable[[int], int],
    what: str,
    arrived: Callable[[int], None] | None = None,
) -> None:
    """Receive all of one side while sending all of the other.

    Args:
        channel: open; the neighbours do the same with the sides exchanged.
        arriving: segments are filled in this order.
        leaving: segments are sent in this order.
        ready: how many segments may leave, once so many came in; not asked any more once all are in.
        what: this is, named in a Timeout.
        arrived: called with the number of each segment that came in, from 0, before any is sent that waits
            for it. It may be called twice with one number, if an exception broke off the first call.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    comm = channel.comm
    incoming, outgoing = arriving.segments, leaving.segments
    to_receive, to_send = len(incoming), len(outgoing)
    receives: list[Request] = []  # all that were posted, so that their number is never out of date
    sends: list[Request] = []
    received = sent = 0  # how many of them are complete
    patience = channel.patience(what)

    def run() -> None:
        nonlocal received, sent
        while received < to_receive or sent < to_send:
            before = received, sent, len(sends)  # one each way a turn: a burst keeps others waiting
            limit = to_send if received == to_receive else min(to_send, ready(received))
            if len(sends) < limit and len(sends) - sent < AHEAD:
                to, segment = outgoing[len(sends)]
                sends.append(comm.Isend(segment, to, TAG))
            while len(receives) < to_receive and len(receives) - received < AHEAD:
                source, room = incoming[len(receives)]
                receives.append(comm.Irecv(room, source, TAG))
            if received < to_receive and receives[received].Test():
                if arrived is not None:
                    arrived(received)
                received += 1
            while sent < len(sends) and sends[sent].Test():
                sent += 1
            if (received, sent, len(sends)) != before:
                patience.progress()
            elif received < to_receive or sent < len(sends):  # later requests may be complete already
                patience.pause([*receives[received : received + 1], *sends[sent : sent + 1]])

    channel.drive(run, (incoming, outgoing, receives, sends))
