"""Sums in rank order: what makes every rank's result the same bits, whoever computes it.

Each element is summed from +0, rank by rank, in at least float32; it is divided, for a mean, in the type of
the sum, and rounded once. MPI_Allreduce sums in an order of its own, which differs between MPIs, rank counts
and sizes.

``sum_dense`` is a reduce-scatter and an all-gather: each rank sums one range of the elements and tells the
others, so that 2(n-1)/n of the vector leave every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.channel import Channel
from collectives.transport.allgather import allgather_ragged
from collectives.transport.segments import (
    AHEAD,
    NATIVE_BELOW,
    Octets,
    Side,
    evenly,
    in_step,
    segments_of,
    transfer,
)

__all__ = ["Dense", "accumulator", "bounds_of", "finish", "sum_dense", "sum_named"]

Dense: TypeAlias = npt.NDArray[Any]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that values of ``dtype`` are summed in."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def finish(total: Dense, ranks: int, dtype: np.dtype[Any]) -> Dense:
    """Divide in the type of the sum, then round once.

    Args:
        total: overwritten.
        ranks: what to divide by.
        dtype: what to round to.
    """
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if ranks > 1:
            np.divide(total, total.dtype.type(ranks), out=total)
        return total.astype(dtype, copy=False)


def bounds_of(size: int, ranks: int) -> list[int]:
    """Where the ranks' ranges of ``size`` elements begin and end: ranks + 1 numbers."""
    return [size * rank // ranks for rank in range(ranks + 1)]


def sum_dense(channel: Channel, vector: Dense, divisor: int, out: Dense | None = None) -> Dense:
    """The sum in rank order of every rank's vector, divided by ``divisor``; the same bits on every rank.

    Args:
        channel: open; all ranks call this together.
        vector: (d,) of one type and size on all ranks; not changed.
        divisor: 1, or the number of ranks.
        out: (d,) of that type, contiguous, where the sum is to stand; a new array without one. To spare the
            system finding memory for it may save as much time as the sum takes.

    Returns the sum. Raises Timeout.
    """
    n, dtype = channel.size, vector.dtype
    mine = _octets(vector)
    if n * len(mine) < NATIVE_BELOW or n == 1:
        blocks = allgather_ragged(channel, mine, [len(mine)] * n)
        if out is None:
            out = np.empty(vector.size, dtype)
        _sum_into(out, [block.view(dtype) for block in blocks], divisor)
        return out
    if out is None:
        out = np.empty(vector.size, dtype)
    _reduce(channel, _cut(np.ascontiguousarray(vector), n), _cut(out, n), divisor)
    return out


def sum_named(channel: Channel, vectors: Mapping[str, Dense], divisor: int) -> dict[str, Dense]:
    """Sum every rank's vectors by name, as the last exchange of a call.

    Vectors of one type travel as one.

    Args:
        channel: open; all ranks call this together.
        vectors: {name: (d,)}; the same names, types and sizes on all ranks, in the same order.
        divisor: 1, or the number of ranks.

    Returns {name: (d,)}, the same bits on every rank. Raises Timeout.
    """
    work: list[tuple[Dense, Dense]] = []  # all memory is allocated before the first byte is sent
    sums: dict[str, Dense] = {}
    for dtype in sorted({vector.dtype for vector in vectors.values()}, key=str):
        same = {name: vector for name, vector in vectors.items() if vector.dtype == dtype}
        whole = next(iter(same.values())) if len(same) == 1 else np.concatenate(list(same.values()))
        out = np.empty(whole.size, dtype)
        start = 0
        for name, vector in same.items():
            sums[name] = out[start : start + vector.size]
            start += vector.size
        work.append((whole, out))
    for number, (whole, out) in enumerate(work, 1):
        channel.call.last = number == len(work)
        sum_dense(channel, whole, divisor, out)
    channel.call.delivered = True
    return sums


def _reduce(channel: Channel, pieces: Sequence[Dense], sums: Sequence[Dense], divisor: int) -> None:
    """Pieces to their ranges' ranks; then the sums around a ring, as ``ring`` has it.

    A rank sends to all others in turn, a segment to each: whole pieces one after another would be handed to
    the network faster than it takes them, and all of them would arrive late. A segment is summed, and may be
    passed on, as soon as all ranks' pieces of it are there. So these stay for a moment, in a little room that
    remains in the cache.

    Args:
        channel: open.
        pieces: this rank's, of each range.
        sums: of each range; filled.
        divisor: 1, or the number of ranks.
    """
    n, rank = channel.size, channel.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    senders = [(rank - step) % n for step in range(1, n)]
    own = pieces[rank]
    longest = max(piece.size for piece in pieces)
    width = -(-evenly(longest * own.itemsize) // own.itemsize)  # elements of a segment, alike on all ranks
    segment = width * own.itemsize
    groups = segments_of(own.nbytes, segment)  # of n-1 segments, one of each sender
    at_once = min(groups, AHEAD // (n - 1) + 2)
    room = channel.room(at_once * n * segment).view(own.dtype).reshape(at_once, n, width)

    def spot(group: int, sender: int) -> Dense:
        """Where a sender's piece of a group is."""
        found: Dense = room[group % at_once, sender, : own.size - group * width]
        return found

    def add(number: int) -> None:
        group, others = divmod(number + 1, n - 1)
        if others == 0 and 0 < group <= groups:
            group -= 1
            part = slice(group * width, (group + 1) * width)
            found = [own[part] if other == rank else spot(group, other) for other in range(n)]
            _sum_into(sums[rank][part], found, divisor)

    outgoing = [((rank + step) % n, _octets(pieces[(rank + step) % n])) for step in range(1, n)]
    arriving = [_octets(sums[(left - step) % n]) for step in range(n - 1)]
    leaving = [_octets(sums[rank]), *arriving[:-1]]
    sending = Side.in_turn(outgoing, segment)
    passing = Side.of([(right, block) for block in leaving], segment)
    coming = Side.of([(left, block) for block in arriving], segment)
    rooms = [(sender, _octets(spot(group, sender))) for group in range(groups) for sender in senders]
    pieces_due = (n - 1) * groups
    passed_on = in_step(arriving, leaving, passed_from=1, segment=segment)

    def ready(received: int) -> int:
        """AHEAD of what came in, and no sum before it is there; then as the ring has it."""
        if received < pieces_due:
            return min(received + AHEAD, sending.count + received // (n - 1))
        return sending.count + passed_on(received - pieces_due)

    channel.bytes_sent += sum(len(block) for _, block in outgoing) + sum(len(block) for block in leaving)
    transfer(
        channel,
        Side([*rooms, *coming.segments]),
        Side([*sending.segments, *passing.segments]),
        ready,
        "summing",
        add,
    )


def _sum_into(out: Dense, vectors: Sequence[Dense], divisor: int) -> None:
    """The sum of vectors in their order, from +0, divided as ``finish`` does it.

    Args:
        out: (d,), where it is to stand; what is of the sum's own type is summed there.
        vectors: (d,) each, of ``out``'s type.
        divisor: 1, or the number of ranks.
    """
    wide = accumulator(out.dtype)
    total = out if wide == out.dtype else np.empty(out.size, wide)
    total.fill(0)
    with np.errstate(all="ignore"):
        for vector in vectors:
            total += vector
    done = finish(total, divisor, out.dtype)
    if done is not out:
        out[:] = done


def _cut(vector: Dense, ranks: int) -> list[Dense]:
    """The ranks' ranges of a vector, as views."""
    return [vector[start:stop] for start, stop in pairwise(bounds_of(vector.size, ranks))]


def _octets(vector: Dense) -> Octets:
    return np.ascontiguousarray(vector).view(np.uint8)
