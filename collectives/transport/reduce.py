"""Dense sums in rank order, which have the same bits on every rank.

Each element is summed from +0, rank by rank, in at least float32. For a mean, the sum is divided in its own
type. The result is rounded once. MPI_Allreduce sums in another order, which depends on the MPI library, the
number of ranks and the size.

``sum_dense`` is a reduce-scatter and an all-gather: each rank sums one range of the elements and sends the
sums to the others. So 2(n-1)/n of the vector leave every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.channel import ByteArray, Channel
from collectives.transport.allgather import allgather_ragged
from collectives.transport.segments import (
    MAX_IN_FLIGHT,
    MIN_SEGMENTED,
    SegmentList,
    compute_segment_size,
    count_segments,
    make_send_limit,
    transfer,
)
from collectives.transport.weights import Weights

Dense: TypeAlias = npt.NDArray[Any]


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values of ``dtype`` are summed."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def divide_and_round(total: Dense, divisor: float, dtype: np.dtype[Any], out: Dense | None = None) -> Dense:
    """Divide a sum in its own type, then round once.

    Args:
        total: overwritten.
        divisor: above 0.
        dtype: type of the result.
        out: memory for the result, of that type, which may be ``total``; None for any memory.
    """
    if divisor == 1 and out is total:
        return total
    with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
        if divisor != 1:
            quotient = total if out is None or out.dtype != total.dtype else out
            total = np.divide(total, total.dtype.type(divisor), out=quotient)
        if out is None:
            return total.astype(dtype, copy=False)
        if out is not total:
            out[:] = total
        return out


def add_weighted(total: Dense, vector: Dense, factor: float) -> None:
    """Add factor * vector to a sum, each rounded in the sum's type; nothing if the factor is 0."""
    if factor == 1:
        total += vector
    elif factor:
        total += vector.astype(total.dtype, copy=False) * total.dtype.type(factor)


def compute_bounds(size: int, ranks: int) -> list[int]:
    """Compute the ranks + 1 bounds of the ranks' ranges of ``size`` elements."""
    return [size * rank // ranks for rank in range(ranks + 1)]


def sum_dense(channel: Channel, vector: Dense, weights: Weights, out: Dense | None = None) -> Dense:
    """Sum every rank's weighted vector in rank order, and divide.

    Args:
        channel: open; all ranks call this together.
        vector: (d,), of the same type and size on all ranks; not changed.
        weights: of the ranks.
        out: (d,) of that type, contiguous, for the sum; by default a new array. The allocation of a new one
            may take as much time as the sum.

    Returns:
        The sum, the same bits on every rank.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    n, dtype = channel.size, vector.dtype
    data = _as_bytes(vector)
    if n * len(data) < MIN_SEGMENTED or n == 1:
        blocks = allgather_ragged(channel, data, [len(data)] * n)
        if out is None:
            out = np.empty(vector.size, dtype)
        _sum_into(out, [block.view(dtype) for block in blocks], weights)
        return out
    if out is None:
        out = np.empty(vector.size, dtype)
    _reduce(channel, _split(np.ascontiguousarray(vector), n), _split(out, n), weights)
    return out


def sum_named(
    channel: Channel, vectors: Mapping[str, Dense], weights: Weights, out: Mapping[str, Dense] | None = None
) -> dict[str, Dense]:
    """Sum every rank's vectors by name, as the last exchange of a call.

    Vectors of the same type are summed as one vector.

    Args:
        channel: open; all ranks call this together.
        vectors: {name: (d,)}; the same names, types and sizes on all ranks, in the same order.
        weights: of the ranks.
        out: {name: (d,)} memory for sums, of their types, for some or all of the names. The sum of a vector
            that is the only one of its type is received there; others are copied there.

    Returns:
        {name: (d,)}, the same bits on every rank.

    Raises:
        Timeout: nothing arrived during the channel's timeout; the channel is then closed.
    """
    work: list[tuple[Dense, Dense]] = []  # (summands, sums), allocated before the first byte is sent
    sums: dict[str, Dense] = {}
    targets = {} if out is None else out
    for dtype in sorted({vector.dtype for vector in vectors.values()}, key=str):
        same = {name: vector for name, vector in vectors.items() if vector.dtype == dtype}
        whole = next(iter(same.values())) if len(same) == 1 else np.concatenate(list(same.values()))
        alone = targets.get(next(iter(same))) if len(same) == 1 else None
        shared = alone is None or np.may_share_memory(whole, alone)  # summands are read until the end
        total = np.empty(whole.size, dtype) if shared or alone is None else alone
        start = 0
        for name, vector in same.items():
            sums[name] = total[start : start + vector.size]
            start += vector.size
        work.append((whole, total))
    for number, (whole, total) in enumerate(work, 1):
        channel.call.is_final_transfer = number == len(work)
        sum_dense(channel, whole, weights, total)
    channel.call.is_delivered = True
    return sums


def _reduce(channel: Channel, pieces: Sequence[Dense], sums: Sequence[Dense], weights: Weights) -> None:
    """Send pieces to the ranks that sum them, then send the sums around a ring.

    A rank sends one segment to each other rank in turn. If it sent whole pieces one after another, it would
    overrun the network, and all of them would arrive late. A segment is summed, and may be forwarded, as soon
    as all ranks' pieces of it have arrived. So the pieces need only a small buffer, which stays in the cache.

    Args:
        channel: open.
        pieces: this rank's values in each range.
        sums: buffers for the sums of each range.
        weights: of the ranks.
    """
    n, rank = channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    senders = [(rank - step) % n for step in range(1, n)]
    own = pieces[rank]
    longest = max(piece.size for piece in pieces)
    width = -(-compute_segment_size(longest * own.itemsize) // own.itemsize)  # elements per segment
    segment = width * own.itemsize
    groups = count_segments(own.nbytes, segment)  # each of n-1 segments, one per sender
    slots = min(groups, MAX_IN_FLIGHT // (n - 1) + 2)
    buffer = channel.get_buffer(slots * n * segment).view(own.dtype).reshape(slots, n, width)

    def get_slot(group: int, sender: int) -> Dense:
        """Return the buffer for a sender's segment of a group."""
        slot: Dense = buffer[group % slots, sender, : own.size - group * width]
        return slot

    def add_group(number: int) -> None:
        """Sum a group if segment ``number`` completes it."""
        group, others = divmod(number + 1, n - 1)
        if others == 0 and 0 < group <= groups:
            group -= 1
            part = slice(group * width, (group + 1) * width)
            vectors = [own[part] if other == rank else get_slot(group, other) for other in range(n)]
            _sum_into(sums[rank][part], vectors, weights)

    pieces_out = [((rank + step) % n, _as_bytes(pieces[(rank + step) % n])) for step in range(1, n)]
    sums_in = [_as_bytes(sums[(left - step) % n]) for step in range(n - 1)]
    sums_out = [_as_bytes(sums[rank]), *sums_in[:-1]]
    slots_in = [(sender, _as_bytes(get_slot(group, sender))) for group in range(groups) for sender in senders]
    piece_segments = SegmentList.interleave(pieces_out, segment)
    sum_segments = SegmentList.from_blocks([(right, block) for block in sums_out], segment)
    sum_buffers = SegmentList.from_blocks([(left, block) for block in sums_in], segment)
    expected_pieces = (n - 1) * groups
    limit_of_ring = make_send_limit(sums_in, sums_out, forwarded_from=1, segment=segment)

    def send_limit(received: int) -> int:
        """Limit pieces by what was received, sums by what was summed; then follow the ring."""
        if received < expected_pieces:
            return min(received + MAX_IN_FLIGHT, piece_segments.count + received // (n - 1))
        return piece_segments.count + limit_of_ring(received - expected_pieces)

    channel.bytes_sent += sum(len(block) for _, block in pieces_out) + sum(map(len, sums_out))
    transfer(
        channel,
        SegmentList([*slots_in, *sum_buffers.segments]),
        SegmentList([*piece_segments.segments, *sum_segments.segments]),
        send_limit,
        "the dense sum",
        add_group,
    )


def _sum_into(out: Dense, vectors: Sequence[Dense], weights: Weights) -> None:
    """Sum weighted vectors in their order, from +0; divide and round as ``divide_and_round``.

    Args:
        out: (d,), for the result.
        vectors: (d,) each, of ``out``'s type, by rank.
        weights: of the ranks.
    """
    wide = accumulator_dtype(out.dtype)
    total = out if wide == out.dtype else np.empty(out.size, wide)
    total.fill(0)
    with np.errstate(all="ignore"):
        for rank, vector in enumerate(vectors):
            add_weighted(total, vector, weights.of_rank(rank))
    result = divide_and_round(total, weights.divisor, out.dtype)
    if result is not out:
        out[:] = result


def _split(vector: Dense, ranks: int) -> list[Dense]:
    """Split a vector into the ranks' ranges, as views."""
    return [vector[start:stop] for start, stop in pairwise(compute_bounds(vector.size, ranks))]


def _as_bytes(vector: Dense) -> ByteArray:
    return np.ascontiguousarray(vector).view(np.uint8)
