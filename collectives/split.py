"""Sparse all-reduce by ranges: each rank sums one range of the elements, and tells the others its sums.

    every rank's tensors ─► cut into n ranges ─► all-to-all ─► ordered sums of one's range ─► all-gather

Where many ranks choose alike, the sums take fewer bytes than all ranks' encodings do. A range is that of all
tensors' elements in the order of their names, so tensors of any sizes share the work. What travels are
containers: of the decoded values, which need no second rounding, and then of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from math import prod
from typing import TypeAlias

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import NO_DETAIL, Algorithm, Header, Status
from collectives.channel import Channel
from collectives.exchange import (
    Encoding,
    Form,
    failed_decoding,
    failed_encoding,
    limits_of,
    refusal,
    stored_in,
)
from collectives.transport.allgather import allgather_ragged
from collectives.transport.alltoall import alltoall_ragged, exchange_counts
from collectives.transport.reduce import Dense, accumulator, bounds_of, finish
from collectives.transport.segments import Octets
from wirecodec.interop import as_bytes

__all__ = ["SECOND_PHASE", "ranges_of", "split"]

Ranges: TypeAlias = dict[str, tuple[int, int]]

_FIRST_PHASE = "nonzero | rice | raw"
SECOND_PHASE = {
    Algorithm.SPLIT_PAIRS: "nonzero | rice | raw",
    Algorithm.SPLIT_BITMAP: "nonzero | bitmap | raw",
    Algorithm.SPLIT_DENSE: "all | raw-index | raw",
}


def ranges_of(forms: Mapping[str, Form], ranks: int) -> list[Ranges]:
    """For each rank, {name: (start, stop)} of the elements that it sums; a name where it sums any."""
    sizes = {name: prod(forms[name][0]) for name in sorted(forms, key=str.encode)}
    edges = bounds_of(sum(sizes.values()), ranks)
    ends = list(accumulate(sizes.values()))
    found: list[Ranges] = []
    for low, high in pairwise(edges):
        found.append(
            {
                name: (max(low, end - size) - (end - size), min(high, end) - (end - size))
                for (name, size), end in zip(sizes.items(), ends, strict=True)
                if max(low, end - size) < min(high, end)
            }
        )
    return found


def split(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Dense]:
    """Flat sums by name, divided by ``divisor``, in the tensors' types; the same bits on every rank.

    Args:
        channel: open; all ranks call this together.
        local: this rank's side, agreed on.
        divisor: 1, or the number of ranks.
        proposal: operation, reduction and the split algorithm that all ranks chose.

    Raises CollectiveError on all ranks where one of them refuses what another one sent; Timeout.
    """
    ranges = ranges_of(local.forms, channel.size)
    failure = None
    blocks: list[Octets] = [
        np.empty(0, np.uint8)
    ] * channel.size  # no containers: whoever gets one refuses it
    try:
        blocks = _pieces(local.sent(), ranges)
    except Exception as error:
        failure = failed_decoding(error, channel.rank)
    counts = exchange_counts(channel, [len(block) for block in blocks])
    found = alltoall_ragged(channel, blocks, [row[channel.rank] for row in counts])
    block: Octets = np.empty(0, np.uint8)
    stored = NO_DETAIL
    try:
        block = _sums(found, local.forms, ranges[channel.rank], divisor, Algorithm(proposal.algorithm))
        stored = stored_in(block)
    except _Refused as error:
        failure = failure or Failure(Status.DECODE, error.error, error.rank)
    except Exception as error:
        failure = failure or failed_encoding(error)
    proposal = proposal._replace(payload_len=len(block), detail=stored)
    table = agree(channel, proposal, local.operand, failure)
    channel.remember_union(local.operand.signature, sum(header.detail for header in table))
    channel.call.learning = False
    channel.call.last = True
    results = allgather_ragged(channel, block, [header.payload_len for header in table])
    channel.call.delivered = True
    return _joined(results, local.forms, ranges)


class _Refused(Exception):
    """What a rank sent does not decode."""

    def __init__(self, rank: int, error: wc.WireError) -> None:
        super().__init__(rank, error)
        self.rank = rank
        self.error = error


def _pieces(sent: Mapping[str, wc.SparseTensor], ranges: list[Ranges]) -> list[Octets]:
    """For each rank, what it sums of these tensors, as a container."""
    return [
        as_bytes(
            wc.encode_many(
                {name: _slice(sent[name], *limits) for name, limits in mine.items()},
                _FIRST_PHASE,
                names=False,
            )
        )
        for mine in ranges
    ]


def _slice(tensor: wc.SparseTensor, start: int, stop: int) -> wc.SparseTensor:
    """The elements from ``start`` to ``stop``, as a flat tensor of their own."""
    if tensor.is_full:
        return wc.SparseTensor.from_dense(tensor.values[start:stop])
    edges = np.array([start, stop - 1], np.int64).astype(tensor.indices.dtype)
    first = int(np.searchsorted(tensor.indices, edges[0]))
    last = int(np.searchsorted(tensor.indices, edges[1], side="right"))
    return wc.SparseTensor(tensor.indices[first:last] - edges[0], tensor.values[first:last], (stop - start,))


def _forms_within(forms: Mapping[str, Form], ranges: Ranges) -> dict[str, Form]:
    return {name: ((stop - start,), forms[name][1]) for name, (start, stop) in ranges.items()}


def _sums(
    blobs: list[Octets], forms: Mapping[str, Form], ranges: Ranges, divisor: int, algorithm: Algorithm
) -> Octets:
    """The container of this rank's sums; raises _Refused.

    Args:
        blobs: every rank's piece, in rank order.
        forms: of the whole tensors.
        ranges: what this rank sums.
        divisor: 1, or the number of ranks.
        algorithm: says how sums are written.
    """
    schema = _forms_within(forms, ranges)
    limits = limits_of(schema, blobs)
    totals = {name: np.zeros(shape, accumulator(dtype)) for name, (shape, dtype) in schema.items()}
    for rank, blob in enumerate(blobs):
        try:
            wc.decode_add(blob, totals, limits=limits, schema=schema)
        except wc.WireError as error:
            raise _Refused(rank, error) from error
    done = {name: finish(total, divisor, forms[name][1]) for name, total in totals.items()}
    return as_bytes(wc.encode_many(done, SECOND_PHASE[algorithm], names=False))


def _joined(blobs: list[Octets], forms: Mapping[str, Form], ranges: list[Ranges]) -> dict[str, Dense]:
    """All ranks' sums next to each other; CollectiveError, on all ranks alike, where one is refused."""
    out = {name: np.empty(prod(shape), dtype) for name, (shape, dtype) in forms.items()}
    for rank, (blob, mine) in enumerate(zip(blobs, ranges, strict=True)):
        schema = _forms_within(forms, mine)
        try:
            found = wc.decode_many(blob, limits=limits_of(schema, [blob]), schema=schema)
        except wc.WireError as error:
            raise refusal(rank, error) from error
        for name, (start, stop) in mine.items():
            found[name].to_dense(out=out[name][start:stop])
    return out
