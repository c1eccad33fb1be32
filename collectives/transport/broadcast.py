"""Broadcast of a block along a chain of ranks, in segments that each rank forwards at once.

The root's sends complete as soon as MPI has copied them, long before the network has carried them. Later
messages of the root to other ranks would compete with the block and delay it, and all ranks that wait for it.
So the root waits for one byte of its neighbour, which confirms that the block has arrived.
"""

from __future__ import annotations

import numpy as np

from collectives.channel import ByteArray, Channel
from collectives.transport.allgather import allgather_concatenated
from collectives.transport.segments import MAX_SEGMENT, MIN_SEGMENTED, SegmentList, transfer

MIN_SEGMENT = 4096  # bytes
SEGMENTS_PER_BLOCK = 32  # enough to keep all links of a chain busy at once


def broadcast(channel: Channel, block: ByteArray, nbytes: int, root: int) -> ByteArray:
    """Send the root's block to every rank.

    Args:
        channel: open; all ranks call this together.
        block: the root's bytes, contiguous; ignored on other ranks.
        nbytes: length of the block, known to all ranks.
        root: the rank that has the block.

    Returns:
        The block, (nbytes,) uint8.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    n, rank = channel.size, channel.rank
    if n == 1 or nbytes == 0:
        return block[:nbytes]
    if n * nbytes < MIN_SEGMENTED:  # one call, and as many bytes on each link
        counts = [nbytes if other == root else 0 for other in range(n)]
        return allgather_concatenated(channel, block[: counts[rank]], counts)
    position = (rank - root) % n  # in the chain
    out = block if position == 0 else np.empty(nbytes, np.uint8)
    segment = compute_chain_segment(nbytes)
    left, right = (rank - 1) % n, (rank + 1) % n
    channel.bytes_sent += nbytes if position < n - 1 else 0
    transfer(
        channel,
        SegmentList.from_blocks([(left, out)] if position else [], segment),
        SegmentList.from_blocks([(right, out)] if position < n - 1 else [], segment),
        lambda received: received,
        f"the broadcast from rank {root}",
    )
    if n > 2:  # two ranks have one link, on which messages stay in order
        _acknowledge(channel, root, (root + 1) % n)
    return out


def compute_chain_segment(nbytes: int) -> int:
    """Compute the bytes per segment of a block of this size."""
    return max(MIN_SEGMENT, min(MAX_SEGMENT, nbytes // SEGMENTS_PER_BLOCK))


def _acknowledge(channel: Channel, root: int, neighbour: int) -> None:
    """Send one byte from the neighbour to the root, which waits for it."""
    token = np.zeros(1, np.uint8)
    arriving = [(neighbour, token)] if channel.rank == root else []
    leaving = [(root, token)] if channel.rank == neighbour else []
    channel.bytes_sent += len(leaving)
    transfer(
        channel,
        SegmentList.from_blocks(arriving),
        SegmentList.from_blocks(leaving),
        lambda received: 1,
        f"the broadcast from rank {root}",
    )
