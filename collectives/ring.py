"""All-gather of blocks of any length, under a deadline.

Small exchanges use MPI's own Iallgatherv. From 32 KiB on, blocks travel around a ring in segments below
MPI's eager limit, with receives posted ahead: Open MPI's rendezvous protocol over TCP is nearly
half-duplex and takes 1.5 to 3 times as long. Segments also keep every MPI count far below 2^31.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.channel import TAG, Channel, ring_bytes
from collectives.communicator import Patience, Request

__all__ = ["AHEAD", "NATIVE_BELOW", "SEGMENT", "Octets", "allgather_ragged"]

Octets: TypeAlias = npt.NDArray[np.uint8]

NATIVE_BELOW = 32 * 1024  # total bytes; below, one native call has less latency than n-1 rounds
SEGMENT = 60 * 1024  # bytes; Open MPI's eager limit is 64 KiB with its own headers
AHEAD = 64  # segments under way at once in each direction, 3.75 MiB: what a slow neighbour may have to buffer


def allgather_ragged(channel: Channel, block: Octets, counts: Sequence[int]) -> list[Octets]:
    """Every rank's block, in rank order, as views of one new array.

    Args:
        channel: open; all ranks call this together.
        block: this rank's bytes, contiguous, of length counts[rank].
        counts: the length of every rank's block in bytes, the same list on all ranks.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    ends = list(accumulate(counts))
    starts = [end - count for end, count in zip(ends, counts, strict=True)]
    with channel.guard():  # a rank that has no room for the payloads leaves the others waiting
        out: Octets = np.empty(ends[-1], np.uint8)
    out[starts[channel.rank] : ends[channel.rank]] = block
    if channel.size > 1 and len(out):
        if len(out) < NATIVE_BELOW:
            _native(channel, block, out, counts, starts)
        else:
            _ring(channel, out, starts, ends)
        channel.bytes_sent += ring_bytes(counts, channel.rank)
    return [out[start:end] for start, end in zip(starts, ends, strict=True)]


def _native(
    channel: Channel, block: Octets, out: Octets, counts: Sequence[int], starts: Sequence[int]
) -> None:
    requests: list[Request] = []
    with channel.guard(requests):
        requests.append(channel.comm.Iallgatherv(block, [out, (list(counts), list(starts))]))
        channel.wait(requests, "gathering the payloads")


def _ring(channel: Channel, out: Octets, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Pass blocks to the right: one's own, then each that came in, but not the right neighbour's.

    Args:
        channel: open.
        out: all blocks, of which this rank's own is there.
        starts: where each rank's block begins.
        ends: where it ends.
    """
    comm, n, rank = channel.comm, channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    segments = [-(-(end - start) // SEGMENT) for start, end in zip(starts, ends, strict=True)]
    to_receive, to_send = sum(segments) - segments[rank], sum(segments) - segments[right]

    def travelling(first: int) -> Iterator[Octets]:
        """The segments of n-1 blocks, block after block, backwards from rank ``first``."""
        for step in range(n - 1):
            owner = (first - step) % n
            for start in range(starts[owner], ends[owner], SEGMENT):
                yield out[start : min(start + SEGMENT, ends[owner])]

    arriving, leaving = travelling(left), travelling(rank)
    receives: deque[Request] = deque()
    sends: deque[Request] = deque()
    posted = received = sent = 0
    patience = Patience(comm, channel.timeout, f"passing payloads from rank {left} to rank {right}")
    with channel.guard(receives, sends):
        while received < to_receive or sent < to_send or sends:
            while posted < to_receive and len(receives) < AHEAD:
                receives.append(comm.Irecv(next(arriving), left, TAG))
                posted += 1
            # The own block could leave at once, but a slower neighbour would have to buffer it: stay
            # close to what came in.
            here = segments[rank] + received
            limit = min(to_send, here if received == to_receive else min(here, received + AHEAD))
            while sent < limit and len(sends) < AHEAD:
                sends.append(comm.Isend(next(leaving), right, TAG))
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
