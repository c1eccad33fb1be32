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


def broadcast(
    channel: Channel, block: ByteArray, nbytes: int, root: int, memory: ByteArray | None = None
) -> ByteArray:
    """Send the root's block to every rank, in one transfer.

    Args:
        channel: open; all ranks call this together.
        block: the root's bytes, contiguous; ignored on other ranks.
        nbytes: length of the block, known to all ranks.
        root: the rank that has the block.
        memory: (nbytes,) uint8 for the block, which the caller can read after an interrupt, too. None for new
            memory, or on the root for the block itself.

    Returns:
        The block, (nbytes,) uint8.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    n, rank = channel.size, channel.rank
    if rank == root and memory is not None:
        memory[:] = block[:nbytes]
    if n == 1 or nbytes == 0:
        return block[:nbytes]
    if memory is None:
        memory = block if rank == root and n * nbytes >= MIN_SEGMENTED else np.empty(nbytes, np.uint8)
    if n * nbytes < MIN_SEGMENTED:  # one call, and as many bytes on each link
        counts = [nbytes if other == root else 0 for other in range(n)]
        return allgather_concatenated(channel, block[: counts[rank]], counts, lambda _: memory)
    position = (rank - root) % n  # in the chain
    left, right = (rank - 1) % n, (rank + 1) % n
    arriving = [(left, memory)] if position else []
    leaving = [(right, memory)] if position < n - 1 else []
    token: ByteArray = np.zeros(1, np.uint8)
    if n > 2 and position == 0:  # two ranks have one link, on which messages stay in order
        arriving = [(right, token)]
    elif n > 2 and position == 1:
        leaving = [*leaving, (root, token)]
    segment = compute_chain_segment(nbytes)
    channel.bytes_sent += sum(len(data) for _, data in leaving)
    segments = SegmentList.from_blocks(leaving, segment)
    transfer(
        channel,
        SegmentList.from_blocks(arriving, segment),
        segments,
        (lambda received: received) if position else (lambda _: segments.count),
        f"the broadcast from rank {root}",
    )
    return memory


def compute_chain_segment(nbytes: int) -> int:
    """Compute the bytes per segment of a block of this size."""
    return max(MIN_SEGMENT, min(MAX_SEGMENT, nbytes // SEGMENTS_PER_BLOCK))
