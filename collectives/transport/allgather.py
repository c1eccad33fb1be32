"""All-gather of blocks of any length.

Exchanges below 32 KiB use MPI's own Iallgatherv. Larger ones use a ring of segments (``transfer`` gives the
reason). Each rank sends its own block to its right neighbour, and then each block that it received, except
the right neighbour's. A communicator whose all-gather is the faster one gets all blocks, in pieces: each
piece that arrives shows that the ranks are alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from collectives.channel import PIECE, ByteArray, Channel
from collectives.communicator import Request, count_ring_bytes, gathers_any_size
from collectives.transport.segments import (
    MIN_SEGMENTED,
    SegmentList,
    compute_segment_size,
    count_segments,
    make_send_limit,
    transfer,
)
from collectives.waiting.backoff import wait_all

MIN_SEGMENT = 16 * 1024  # bytes
MIN_SEGMENTS_PER_BLOCK = 3  # the first is forwarded while the others arrive


def allgather_ragged(
    channel: Channel,
    block: ByteArray,
    counts: Sequence[int],
    allocate: Callable[[int], ByteArray] | None = None,
) -> list[ByteArray]:
    """Gather every rank's block.

    Args:
        channel: open; all ranks call this together.
        block: this rank's bytes, contiguous, of length counts[rank].
        counts: the length of every rank's block in bytes, the same list on all ranks.
        allocate: size -> uint8 array for the blocks; by default on the host. MPI must support its memory.

    Returns:
        The blocks in rank order, as views of one new array.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    out = allgather_concatenated(channel, block, counts, allocate)
    ends = list(accumulate(counts))
    return [out[end - count : end] for end, count in zip(ends, counts, strict=True)]


def gather_payloads(
    channel: Channel,
    block: ByteArray,
    counts: Sequence[int],
    allocate: Callable[[int], ByteArray] | None = None,
) -> list[ByteArray]:
    """Gather the payloads of an exchange on which all ranks have agreed, as ``allgather_ragged``.

    They may have arrived behind the headers already.
    """
    if channel.call.payloads is not None:
        return channel.call.payloads
    channel.foresight.gathered(max(counts))  # before the transfer, which an interrupt may end
    return allgather_ragged(channel, block, counts, allocate)


def allgather_concatenated(
    channel: Channel,
    block: ByteArray,
    counts: Sequence[int],
    allocate: Callable[[int], ByteArray] | None = None,
) -> ByteArray:
    """Gather every rank's block, as one array.

    Args:
        channel, block, counts, allocate: as for ``allgather_ragged``.

    Returns:
        The blocks in rank order, without gaps.
    """
    ends = list(accumulate(counts))
    starts = [end - count for end, count in zip(ends, counts, strict=True)]
    out: ByteArray = allocate(ends[-1]) if allocate else np.empty(ends[-1], np.uint8)
    if channel.size == 1 or not len(out):
        out[:] = block
    elif len(out) < MIN_SEGMENTED:
        channel.bytes_sent += count_ring_bytes(counts, channel.rank)
        channel.gather(block, out, "the all-gather of payloads", (list(counts), starts))
    elif allocate is None and gathers_any_size(channel.comm):
        channel.bytes_sent += count_ring_bytes(counts, channel.rank)
        _gather_in_pieces(channel, block, out, counts, starts)
    else:
        _gather_in_ring(channel, block, [out[start:end] for start, end in zip(starts, ends, strict=True)])
    return out


def _gather_in_pieces(
    channel: Channel, block: ByteArray, out: ByteArray, counts: Sequence[int], starts: Sequence[int]
) -> None:
    """Fill ``out`` by native all-gathers of at most ``PIECE`` bytes per rank.

    Args:
        channel: open.
        block: this rank's.
        out: for all blocks.
        counts, starts: bytes and place of every rank's block.
    """
    requests: list[Request] = []  # never shortened, so that an interrupt cannot separate list and counter
    backoff = channel.make_backoff("the all-gather of payloads")
    complete = 0

    def run() -> None:
        nonlocal complete
        while complete * PIECE < max(counts):
            first = complete * PIECE
            if len(requests) == complete:
                lengths = [min(max(count - first, 0), PIECE) for count in counts]
                places = (
                    lengths,
                    [start + min(first, count) for start, count in zip(starts, counts, strict=True)],
                )
                piece = block[first : first + PIECE]
                channel.begin(requests, channel.comm.Iallgatherv, piece, [out, places])
            wait_all(backoff, requests[complete:])
            backoff.reset()
            complete += 1

    channel.drive(run, (requests, block, out))


def _gather_in_ring(channel: Channel, block: ByteArray, blocks: Sequence[ByteArray]) -> None:
    """Fill the blocks of all ranks.

    Args:
        channel: open.
        block: this rank's.
        blocks: buffers for every rank's block.
    """
    n, rank = channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    arriving = [blocks[(left - step) % n] for step in range(n - 1)]
    leaving = [block, *arriving[:-1]]
    segment = max(MIN_SEGMENT, compute_segment_size(max(len(one) for one in blocks), MIN_SEGMENTS_PER_BLOCK))
    own = blocks[rank]

    def copy_own_segment(number: int) -> None:
        """Copy a segment of this rank's own block while the others travel."""
        start = number * segment
        own[start : start + segment] = block[start : start + segment]

    channel.bytes_sent += sum(map(len, leaving))
    transfer(
        channel,
        SegmentList.from_blocks([(left, buffer) for buffer in arriving], segment),
        SegmentList.from_blocks([(right, data) for data in leaving], segment),
        make_send_limit(arriving, leaving, forwarded_from=1, segment=segment),
        f"the transfer of payloads from rank {left} to rank {right}",
        copy_own_segment,
    )
    end = segment * sum(count_segments(len(buffer), segment) for buffer in arriving)
    own[end:] = block[end:]
