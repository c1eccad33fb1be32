"""All-to-all of blocks of any length: in round k, rank r sends to r+k and receives from r-k.

Each rank has one partner per round and direction. So no link carries two blocks at once, and no rank receives
from several ranks at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.channel import ByteArray, Channel
from collectives.communicator import count_equal_ring_bytes
from collectives.transport.segments import SegmentList, make_send_limit, transfer


def exchange_counts(channel: Channel, counts: Sequence[int]) -> list[list[int]]:
    """Gather every rank's row of counts.

    Args:
        channel: open; all ranks call this together.
        counts: this rank's row, equally long on all ranks.

    Returns:
        The rows in rank order.
    """
    row = np.array(counts, "<u8").view(np.uint8)
    table: ByteArray = np.empty(len(row) * channel.size, np.uint8)
    channel.bytes_sent += count_equal_ring_bytes(len(row), channel.size)
    channel.gather(row, table, "the exchange of counts")
    rows: list[list[int]] = table.view("<u8").reshape(channel.size, -1).tolist()
    return rows


def alltoall_ragged(channel: Channel, blocks: Sequence[ByteArray], counts: Sequence[int]) -> list[ByteArray]:
    """Send a block to each rank, and receive one from each.

    Args:
        channel: open; all ranks call this together.
        blocks: the block for each rank, contiguous.
        counts: bytes to expect from each rank.

    Returns:
        Every rank's block for this one, in rank order; its own block is not copied.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    n, rank = channel.size, channel.rank
    out = [blocks[rank] if other == rank else np.empty(counts[other], np.uint8) for other in range(n)]
    arriving = [((rank - step) % n, out[(rank - step) % n]) for step in range(1, n)]
    leaving = [((rank + step) % n, blocks[(rank + step) % n]) for step in range(1, n)]
    channel.bytes_sent += sum(len(block) for _, block in leaving)
    transfer(
        channel,
        SegmentList.from_blocks(arriving),
        SegmentList.from_blocks(leaving),
        make_send_limit([buffer for _, buffer in arriving], [block for _, block in leaving]),
        "the all-to-all of pieces",
    )
    return out
