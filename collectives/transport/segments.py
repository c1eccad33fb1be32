"""Segmented transfers between neighbours, used by the ring, the pairwise exchange and the chain.

A transfer is an ordered list of segments to receive and another one of segments to send. All segments are
below MPI's eager limit, because Open MPI's rendezvous protocol over TCP, which larger messages use, is nearly
half-duplex and takes 1.5 to 3 times as long. Segments also keep every MPI count far below 2^31.

Receives are posted ahead. A rank sends only a limited number of segments more than it has received, so that
no rank has to buffer many.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from collectives.channel import TAG, ByteArray, Channel
from collectives.communicator import Request

MIN_SEGMENTED = 32 * 1024  # total bytes; below, one native call has less latency than rounds of messages
MAX_SEGMENT = 60 * 1024  # bytes; Open MPI's eager limit is 64 KiB with its own headers
MAX_IN_FLIGHT = 16  # segments per direction: enough for 10 Gbit/s, and partners keep the same pace


@dataclass(frozen=True)
class SegmentList:
    """Segments of one direction of a transfer.

    Attributes:
        segments: (rank, view) in the order of transfer; the rank is the source or the destination. The list
            is complete before the first segment travels, so that an interrupted transfer can be continued.
    """

    segments: Sequence[tuple[int, ByteArray]]

    @classmethod
    def from_blocks(cls, blocks: Sequence[tuple[int, ByteArray]], segment: int = MAX_SEGMENT) -> SegmentList:
        """List the segments of blocks that travel one after another.

        Args:
            blocks: (rank, contiguous bytes).
            segment: bytes per message.
        """
        return cls([part for rank, block in blocks for part in split_block(rank, block, segment)])

    @classmethod
    def interleave(cls, blocks: Sequence[tuple[int, ByteArray]], segment: int = MAX_SEGMENT) -> SegmentList:
        """List the first segment of each block, then the second of each, and so on.

        Args:
            blocks, segment: as for ``from_blocks``.
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
        """Number of segments."""
        return len(self.segments)


def count_segments(nbytes: int, segment: int = MAX_SEGMENT) -> int:
    """Count the segments of a block of ``nbytes``."""
    return -(-nbytes // segment)


def compute_segment_size(nbytes: int, min_segments: int = 1) -> int:
    """Compute the bytes per segment that split a block evenly; a short last segment would cost as much.

    Args:
        nbytes: of the block, at least 1.
        min_segments: the smallest number of segments.
    """
    return -(-nbytes // max(min_segments, count_segments(nbytes)))


def split_block(rank: int, block: ByteArray, segment: int = MAX_SEGMENT) -> list[tuple[int, ByteArray]]:
    """Split a block into segments, as (rank, view)."""
    return [(rank, block[start : start + segment]) for start in range(0, len(block), segment)]


def make_send_limit(
    arriving: Sequence[ByteArray],
    leaving: Sequence[ByteArray],
    forwarded_from: int | None = None,
    segment: int = MAX_SEGMENT,
) -> Callable[[int], int]:
    """Return a function from the number of received segments to the number that may be sent.

    All segments of earlier rounds may be sent. Of the current round, MAX_IN_FLIGHT more than were received
    may be sent. So a rank waits only for a rank in an earlier round, or for one behind it in the same round.
    Such waits cannot form a cycle, whatever the lengths of the blocks.

    Args:
        arriving, leaving: the block of each round.
        forwarded_from: the first round that sends the block received in the previous round, or the sum of it;
            None if there is no such round.
        segment: bytes per message.
    """
    received_before = list(accumulate((count_segments(len(b), segment) for b in arriving), initial=0))
    sent_before = list(accumulate((count_segments(len(b), segment) for b in leaving), initial=0))
    first_forwarded = len(leaving) if forwarded_from is None else forwarded_from

    def send_limit(received: int) -> int:
        current = bisect_right(received_before, received) - 1
        within = received - received_before[current]
        available = (
            sent_before[first_forwarded]
            if current + 1 < first_forwarded
            else sent_before[current + 1] + within
        )
        return min(sent_before[current] + within + MAX_IN_FLIGHT, available)

    return send_limit


def transfer(
    channel: Channel,
    arriving: SegmentList,
    leaving: SegmentList,
    send_limit: Callable[[int], int],
    what: str,
    on_arrival: Callable[[int], None] | None = None,
) -> None:
    """Receive all segments of one list while sending all of the other.

    Args:
        channel: open; the neighbours do the same with the lists exchanged.
        arriving: segments to fill, in this order.
        leaving: segments to send, in this order.
        send_limit: function from the number of received segments to the number that may be sent. It is not
            called after the last one was received.
        what: name of the operation in a Timeout.
        on_arrival: called with the number of each received segment, from 0, before any segment is sent that
            depends on it. If an exception breaks off this function, it is called again with the same number.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    comm = channel.comm
    incoming, outgoing = arriving.segments, leaving.segments
    to_receive, to_send = len(incoming), len(outgoing)
    receives: list[Request] = []  # never shortened, so that an interrupt cannot separate list and counters
    sends: list[Request] = []
    received = sent = 0  # complete ones
    backoff = channel.make_backoff(what)

    def run() -> None:
        nonlocal received, sent
        while received < to_receive or sent < to_send:
            before = received, sent, len(sends)
            limit = to_send if received == to_receive else min(to_send, send_limit(received))
            if len(sends) < limit and len(sends) - sent < MAX_IN_FLIGHT:  # one per turn: bursts delay others
                to, segment = outgoing[len(sends)]
                channel.begin(sends, comm.Isend, segment, to, TAG)
            while len(receives) < to_receive and len(receives) - received < MAX_IN_FLIGHT:
                source, buffer = incoming[len(receives)]
                channel.begin(receives, comm.Irecv, buffer, source, TAG)
            if received < to_receive and receives[received].Test():
                if on_arrival is not None:
                    on_arrival(received)
                received += 1
            while sent < len(sends) and sends[sent].Test():
                sent += 1
            if (received, sent, len(sends)) != before:
                backoff.reset()
            elif received < to_receive or sent < len(sends):  # later requests may be complete already
                backoff.pause([*receives[received : received + 1], *sends[sent : sent + 1]])

    channel.drive(run, (incoming, outgoing, receives, sends))
