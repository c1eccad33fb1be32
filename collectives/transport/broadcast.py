"""Broadcast of a block along a chain of ranks, in segments, each passed on as soon as it is there.

The root's sends are complete as soon as they are copied, long before the network took them. What it sends to
others next would leave beside the block and hold it up, and with it all ranks that wait for it: so its
neighbour tells it, by one byte, that the block is there.
"""

from __future__ import annotations

import numpy as np

from collectives.channel import Channel
from collectives.transport.allgather import allgather_joined
from collectives.transport.segments import NATIVE_BELOW, SEGMENT, Octets, Side, transfer

__all__ = ["broadcast"]

_SHORTEST = 4096  # bytes of a segment
_SEGMENTS = 32  # enough of them keep all links of a chain busy at once


def broadcast(channel: Channel, block: Octets, nbytes: int, root: int) -> Octets:
    """The root's block, on every rank.

    Args:
        channel: open; all ranks call this together.
        block: the root's bytes, contiguous; not looked at elsewhere.
        nbytes: their number, known to all ranks.
        root: who has them.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    n, rank = channel.size, channel.rank
    if n == 1 or nbytes == 0:
        return block[:nbytes]
    if n * nbytes < NATIVE_BELOW:  # one call, and as many bytes on each link
        counts = [nbytes if other == root else 0 for other in range(n)]
        return allgather_joined(channel, block[: counts[rank]], counts)
    here = (rank - root) % n
    out = block if here == 0 else np.empty(nbytes, np.uint8)
    segment = max(_SHORTEST, min(SEGMENT, nbytes // _SEGMENTS))
    left, right = (rank - 1) % n, (rank + 1) % n
    channel.bytes_sent += nbytes if here < n - 1 else 0
    transfer(
        channel,
        Side.of([(left, out)] if here else [], segment),
        Side.of([(right, out)] if here < n - 1 else [], segment),
        lambda received: received,
        f"passing a block on from rank {root}",
    )
    if n > 2:  # with one neighbour alone, all takes the same way in order
        _acknowledge(channel, root, (root + 1) % n)
    return out


def _acknowledge(channel: Channel, root: int, neighbour: int) -> None:
    """One byte from the neighbour to the root, who waits for it."""
    token = np.zeros(1, np.uint8)
    arriving = [(neighbour, token)] if channel.rank == root else []
    leaving = [(root, token)] if channel.rank == neighbour else []
    channel.bytes_sent += len(leaving)
    transfer(
        channel,
        Side.of(arriving),
        Side.of(leaving),
        lambda received: 1,
        f"passing a block on from rank {root}",
    )
