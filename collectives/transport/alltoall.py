"""All-to-all of blocks of any length: in round k, rank r sends to r+k and receives from r-k.

One partner a round and direction: no link carries two blocks at once, and no receiver is overrun by many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.channel import Channel, gathered_bytes
from collectives.transport.segments import Octets, Side, in_step, transfer

__all__ = ["alltoall_ragged", "exchange_counts"]


def exchange_counts(channel: Channel, counts: Sequence[int]) -> list[list[int]]:
    """Every rank's row of n numbers, in rank order: what each will send to each.

    Args:
        channel: open; all ranks call this together.
        counts: this rank's row.
    """
    mine = np.array(counts, "<u8").view(np.uint8)
    table: Octets = np.empty(len(mine) * channel.size, np.uint8)
    channel.bytes_sent += gathered_bytes(len(mine), channel.size)
    channel.gather(mine, table, "telling what is to come")
    rows: list[list[int]] = table.view("<u8").reshape(channel.size, -1).tolist()
    return rows


def alltoall_ragged(channel: Channel, blocks: Sequence[Octets], counts: Sequence[int]) -> list[Octets]:
    """What every rank has for this one, in rank order; its own block as it is.

    Args:
        channel: open; all ranks call this together.
        blocks: what this rank has for each, contiguous.
        counts: bytes to expect from each rank.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    n, rank = channel.size, channel.rank
    found = [blocks[rank] if other == rank else np.empty(counts[other], np.uint8) for other in range(n)]
    arriving = [((rank - step) % n, found[(rank - step) % n]) for step in range(1, n)]
    leaving = [((rank + step) % n, blocks[(rank + step) % n]) for step in range(1, n)]
    channel.bytes_sent += sum(len(block) for _, block in leaving)
    transfer(
        channel,
        Side.of(arriving),
        Side.of(leaving),
        in_step([room for _, room in arriving], [block for _, block in leaving]),
        "exchanging pieces",
    )
    return found
