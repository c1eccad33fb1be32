"""All-gather of blocks of any length, under a deadline.

Small exchanges use MPI's own Iallgatherv. From 32 KiB on, blocks travel around a ring in segments
(``transfer`` says why): each rank passes its own to the right, then each that came in, but not the right
neighbour's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from collectives.channel import Channel, ring_bytes
from collectives.transport.segments import NATIVE_BELOW, Octets, Side, evenly, in_step, segments_of, transfer

__all__ = ["allgather_joined", "allgather_ragged"]

_SHORTEST = 16 * 1024  # bytes of a segment
_SEGMENTS = 3  # a block, at least: the first is passed on while the others come in


def allgather_ragged(
    channel: Channel, block: Octets, counts: Sequence[int], memory: Callable[[int], Octets] | None = None
) -> list[Octets]:
    """Every rank's block, in rank order, as views of one new array.

    Args:
        channel: open; all ranks call this together.
        block: this rank's bytes, contiguous, of length counts[rank].
        counts: the length of every rank's block in bytes, the same list on all ranks.
        memory: size -> uint8 array, where blocks are to go; the host's without it. MPI must take both.

    Raises Timeout after the channel's timeout without progress; the channel is then closed.
    """
    out = allgather_joined(channel, block, counts, memory)
    ends = list(accumulate(counts))
    return [out[end - count : end] for end, count in zip(ends, counts, strict=True)]


def allgather_joined(
    channel: Channel, block: Octets, counts: Sequence[int], memory: Callable[[int], Octets] | None = None
) -> Octets:
    """The same, as the one array in which the blocks stand next to each other.

    Args:
        channel, block, counts, memory: as for ``allgather_ragged``.
    """
    ends = list(accumulate(counts))
    starts = [end - count for end, count in zip(ends, counts, strict=True)]
    out: Octets = memory(ends[-1]) if memory else np.empty(ends[-1], np.uint8)
    if channel.size == 1 or not len(out):
        out[:] = block
    elif len(out) < NATIVE_BELOW:
        channel.bytes_sent += ring_bytes(counts, channel.rank)
        channel.gather(block, out, "gathering the payloads", (list(counts), starts))
    else:
        _ring(channel, block, [out[start:end] for start, end in zip(starts, ends, strict=True)])
    return out


def _ring(channel: Channel, block: Octets, blocks: Sequence[Octets]) -> None:
    """Fill the blocks of all ranks.

    Args:
        channel: open.
        block: this rank's.
        blocks: where each rank's is to stand.
    """
    n, rank = channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    arriving = [blocks[(left - step) % n] for step in range(n - 1)]
    leaving = [block, *arriving[:-1]]
    segment = max(_SHORTEST, evenly(max(len(one) for one in blocks), _SEGMENTS))
    own = blocks[rank]

    def keep(number: int) -> None:
        """Copy a segment of one's own block, while the others are under way."""
        start = number * segment
        own[start : start + segment] = block[start : start + segment]

    channel.bytes_sent += sum(map(len, leaving))
    transfer(
        channel,
        Side.of([(left, room) for room in arriving], segment),
        Side.of([(right, data) for data in leaving], segment),
        in_step(arriving, leaving, passed_from=1, segment=segment),
        f"passing payloads from rank {left} to rank {right}",
        keep,
    )
    kept = segment * sum(segments_of(len(room), segment) for room in arriving)
    own[kept:] = block[kept:]
