"""Algorithms "split-…": each rank sums one range of the elements and sends the sums to the others.

    every rank's tensors ─► cut into n ranges ─► all-to-all ─► ordered sums of one range ─► all-gather

If many ranks select the same elements, the sums take fewer bytes than all ranks' containers. The messages are
containers (``pieces``): of the decoded values, which need no second rounding, and then of the sums.

Ranges are equal in the first call. Later ones of ``split-pairs`` balance them as Ok-Topk does (Li and
Hoefler, 2022): each range has as many elements of the last union. The counts come from the last headers, so
all ranks compute the same bounds without a message. In results/papers.md, calls of 8 and 16 ranks at 1 Gbit/s
take 39 to 48 % less time than with equal ranges if most stored elements are in the last 5 %, and 7 to 10 %
less in a training. A bitmap or dense sums take bytes per element of a range, so their ranges stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from collectives.agreement.agree import Failure, Payload, agree
from collectives.agreement.compilation import rehearse_together
from collectives.agreement.header import NO_DETAIL, Algorithm, Header, Status
from collectives.channel import ByteArray, Channel
from collectives.cost_model import Cost, Workload
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import failure_of_decoding, failure_of_encoding
from collectives.simulation.communicator import simulate
from collectives.sums.pieces import (
    InvalidPiece,
    assign_ranges,
    decode_blocks,
    encode_pieces,
    encode_sums,
    join_sums,
    join_union,
)
from collectives.transport.allgather import gather_payloads
from collectives.transport.alltoall import alltoall_ragged, exchange_counts
from collectives.transport.reduce import compute_bounds
from collectives.transport.weights import Weights
from wirecodec.interop import count_stored


def balance(bounds: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Move the bounds of ranges so that each would have as many stored elements.

    Args:
        bounds: of n ranges, n + 1 ascending numbers; the first and the last stay.
        counts: stored elements in each range, which count as evenly spread over it.
    """
    total, n = sum(counts), len(counts)
    if total == 0:
        return list(bounds)
    moved, at, before = [bounds[0]], 0, 0
    for target in (total * i // n for i in range(1, n)):
        while before + counts[at] <= target:
            before += counts[at]
            at += 1
        moved.append(bounds[at] + (bounds[at + 1] - bounds[at]) * (target - before) // counts[at])
    return [*moved, bounds[-1]]


@dataclass(frozen=True)
class Split:
    """Split algorithm; the methods are those of an ``AllreduceAlgorithm``.

    Attributes:
        code: of the algorithm.
        scheme: of the sums.
        count_bytes: computes the bytes of all ranges' sums.
        union: scheme of sparse sums; empty if the sums are always dense.
        balanced: whether the ranges are balanced.
    """

    code: Algorithm
    scheme: str
    count_bytes: Callable[[Workload], float]
    union: str = ""
    balanced: bool = False

    def run(self, channel: Channel, local: Encoding, weights: Weights, proposal: Header) -> dict[str, Any]:
        """Sum all ranks' tensors by ranges."""
        if proposal.algorithm != self.code:  # with "auto", the kernels were not rehearsed before the headers
            proposal = proposal._replace(algorithm=self.code)
            work = partial(self.rehearse, local, proposal)
            rehearse_together(channel, (self.code, local.dtypes), work, proposal, local.operand)
        signature = local.operand.signature
        bounds = channel.get_bounds(signature) if self.balanced else None
        bounds = bounds or compute_bounds(sum(prod(shape) for shape, _ in local.specs.values()), channel.size)
        ranges = assign_ranges(local.specs, channel.size, bounds)
        failure = None
        # An empty block is not a container, so its receiver reports it.
        blocks: list[ByteArray] = [np.empty(0, np.uint8)] * channel.size
        try:
            blocks = encode_pieces(local.decode_own(), ranges, sparse=local.sparse)
        except Exception as error:
            failure = failure_of_decoding(error, channel.rank)
        lengths = exchange_counts(channel, [len(block) for block in blocks])
        pieces = alltoall_ragged(channel, blocks, [row[channel.rank] for row in lengths])
        block: ByteArray = np.empty(0, np.uint8)
        stored = NO_DETAIL
        scheme = self.union if local.sparse else self.scheme
        try:
            own = ranges[channel.rank]
            block = encode_sums(pieces, local.specs, own, weights, scheme, sparse=local.sparse)
            stored = count_stored(block)
        except InvalidPiece as error:
            failure = failure or Failure(Status.DECODE, error.error, error.rank)
        except Exception as error:
            failure = failure or failure_of_encoding(error)
        proposal = proposal._replace(payload_len=len(block), detail=stored)
        table = agree(channel, proposal, local.operand, failure, Payload(block))
        counts = [header.detail for header in table]
        channel.remember_union(signature, sum(counts))
        if self.balanced:
            channel.remember_bounds(signature, balance(bounds, counts))
        channel.call.update_pending = False
        channel.call.is_final_transfer = True
        results = gather_payloads(channel, block, [header.payload_len for header in table])
        channel.call.is_delivered = True
        decoded = decode_blocks(results, local.specs, ranges)
        return (join_union if local.sparse else join_sums)(decoded, local, ranges)

    def rehearse(self, local: Encoding, proposal: Header) -> None:
        """Run the algorithm on one simulated rank."""
        simulate(1, lambda alone: self.run(Channel(alone), local, Weights(), proposal))

    def cost(self, work: Workload) -> Cost:
        """Compute the cost of both phases; each has one message per other rank, after as many with sizes."""
        n, sums = work.ranks, work.union if self.union else work.elements
        pair = work.pair_bytes(work.largest) if work.pair is None else work.pair
        nbytes = work.fraction * work.largest * pair + work.fraction * self.count_bytes(work)
        stored = 2 * work.largest + work.fraction * work.stored / n + sums * (1 + 1 / n)
        return Cost(4 * (n - 1), nbytes, 3 * work.elements, stored)


SPLITS = (
    Split(
        Algorithm.SPLIT_PAIRS,
        "nonzero | rice | raw",
        lambda work: work.union * work.pair_bytes(work.union),
        union="all | rice | raw",
        balanced=True,
    ),
    Split(
        Algorithm.SPLIT_BITMAP,
        "nonzero | bitmap | raw",
        lambda work: work.union * work.width + work.elements / 8,
        union="all | bitmap | raw",
    ),
    Split(Algorithm.SPLIT_DENSE, "all | raw-index | raw", lambda work: work.nbytes),
)
