"""Sum of a step: pieces to the owners, their choice, and the chosen sums to all ranks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, Payload, agree
from collectives.agreement.header import Header, Status, short_hash
from collectives.call import Call
from collectives.channel import ByteArray, Channel
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import failure_of_encoding
from collectives.exchange.union import SparseSums
from collectives.oktopk.delivery import Delivery, join_supports
from collectives.oktopk.layout import Layout, Sparse, Vector
from collectives.oktopk.owners import Chosen, Schemes, choose, cut_all, encode_elements
from collectives.oktopk.ranges import Bounds, exchange_lengths
from collectives.sums.pieces import InvalidPiece, Ranges, assign_ranges, decode_blocks
from collectives.sums.split import balance
from collectives.transport.allgather import gather_payloads
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.reduce import compute_bounds
from collectives.transport.weights import Weights
from wirecodec.interop import as_scheme, index_dtype, make_sparse

_NOTHING: ByteArray = np.empty(0, np.uint8)
_ALL = as_scheme("all | rice | raw")


@dataclass(frozen=True, eq=False)
class Step:
    """One rank's side of a step.

    Attributes:
        channel: open.
        local: this rank's side of the exchange, after the agreement.
        weights: of the ranks.
        proposal: the requested operation.
        layout: of the tensors.
        seed: of value codecs that draw random numbers; it differs between ranks and steps.
        turn: number that changes with the steps; it moves the rounding of the sums' number from rank to rank.
        bounds: of the ranges, or None for equal ones.
    """

    channel: Channel
    local: Encoding
    weights: Weights
    proposal: Header
    layout: Layout
    seed: int
    turn: int
    bounds: Bounds | None

    @property
    def owners(self) -> list[int]:
        """The ranks that take part: those with a weight."""
        return [rank for rank in range(self.channel.size) if self.weights.of_rank(rank) > 0]

    def find_bounds(self) -> Bounds:
        """Return the bounds of the owners' ranges."""
        owners, size = len(self.owners), sum(v.size for v in self.layout.vectors.values())
        known = self.bounds
        if known is not None and (len(known), known[0], known[-1]) == (owners + 1, 0, size):
            return known
        return tuple(compute_bounds(size, owners))

    def make_seed(self, phase: int) -> int:
        """Return a seed for the pieces (0) or the sums (1)."""
        return short_hash(struct.pack("<QQ", self.seed, phase))


def sum_by_owners(
    step: Step,
    deliver: Callable[[], Delivery] | None,
    remember: Callable[[Bounds], None] = lambda _: None,
) -> dict[str, Any]:
    """Sum a step; return the sums as an ``AllreduceAlgorithm`` does.

    Args:
        step: of this rank.
        deliver: makes the Delivery, which receives what the residuals need; None for a rehearsal. If it
            raises, all ranks raise CollectiveError.
        remember: is called with balanced bounds for the next step, when this one is committed.

    Raises:
        CollectiveError: a rank failed; the same on all ranks.
        Timeout: a rank does not take part.
    """
    channel, local, owners = step.channel, step.local, step.owners
    bounds = step.find_bounds()
    specs = step.layout.specs
    ranges = assign_ranges(specs, len(owners), bounds)
    failure, delivery, schemes = None, None, dict[str, wc.Scheme]()
    # An empty block is not a container, so its receiver reports it.
    blocks = [_NOTHING] * channel.size
    try:
        delivery = None if deliver is None else deliver()
        vectors = step.layout.join(local.decode_own()) if delivery is None else delivery.vectors
        schemes = make_schemes(step.layout, None if delivery is None else delivery.find_error)
        if channel.rank in owners:
            _encode_pieces(step, vectors, ranges, schemes, delivery, blocks)
        elif delivery is not None:
            delivery.send(None)
    except Exception as error:
        failure = failure_of_encoding(error)
    pieces = alltoall_ragged(channel, blocks, exchange_lengths(channel, blocks))
    chosen = Chosen(_NOTHING, 0, {})
    if channel.rank in owners:
        try:
            place = owners.index(channel.rank)
            chosen = choose(
                {rank: pieces[rank] for rank in owners},
                specs,
                ranges[place],
                step.weights,
                channel.rank,
                (place + step.turn) % len(owners),
                schemes,
                step.make_seed(1),
            )
        except InvalidPiece as error:
            failure = failure or Failure(Status.DECODE, error.error, error.rank)
        except Exception as error:
            failure = failure or failure_of_encoding(error)
    proposal = step.proposal._replace(payload_len=len(chosen.block), detail=chosen.received)
    arrival = _Arrival(channel.call, step.owners, ranges, local, step.layout)
    if delivery is not None:
        # Before the last transfer, after which an interrupted rank takes the step, too.
        delivery.keep(chosen.kept)
        delivery.settle_at_commit(arrival.find_supports, lambda: arrival.balance(bounds, remember))
    arrival.table = agree(channel, proposal, local.operand, failure, Payload(chosen.block))
    channel.call.is_final_transfer = True
    gather_payloads(channel, chosen.block, arrival.counts, arrival.allocate)
    channel.call.is_delivered = True
    return arrival.deliver_sparse() if local.sparse else arrival.deliver()


@dataclass(eq=False)
class _Arrival:
    """The chosen sums of all owners, as far as they have arrived.

    Attributes:
        call: of this exchange, which has the payloads behind the headers.
        owners: their ranks.
        ranges: of the owners.
        local: this rank's side.
        layout: of the tensors.
        table: headers of the last agreement.
        buffer: for the payloads, unless they come behind the headers.
    """

    call: Call
    owners: Sequence[int]
    ranges: Sequence[Ranges]
    local: Encoding
    layout: Layout
    table: Sequence[Header] = ()
    buffer: ByteArray = field(default_factory=lambda: _NOTHING)
    _decoded: list[SparseSums] | None = None
    _supports: dict[str, Any] | None = None

    @property
    def counts(self) -> list[int]:
        """Bytes of all ranks' payloads."""
        return [header.payload_len for header in self.table]

    def allocate(self, size: int) -> ByteArray:
        """Return the memory for the payloads."""
        self.buffer = np.empty(size, np.uint8)
        return self.buffer

    def decode(self) -> list[SparseSums]:
        """Decode the sums of all ranges; raise CollectiveError on all ranks if a container is invalid."""
        if self._decoded is None:
            ends = accumulate(self.counts)
            blobs = self.call.payloads or [
                self.buffer[end - count : end] for end, count in zip(ends, self.counts, strict=True)
            ]
            chosen = [blobs[owner] for owner in self.owners]
            self._decoded = decode_blocks(chosen, self.layout.specs, self.ranges, self.owners)
        return self._decoded

    def find_supports(self) -> dict[str, Any]:
        """Return the chosen indices of each vector."""
        if self._supports is None:
            self._supports = join_supports(self.decode(), self.ranges, self.layout)
        return self._supports

    def deliver(self) -> dict[str, Any]:
        """Return {name: (size,) sums}, in the caller's memory if there is any."""
        results = {}
        for vector, indices, values in self._join():
            for name, part, start in vector.cut(indices):
                out = self.local.targets.allocate(name, vector.sizes[name], vector.dtype)
                if part.stop - part.start == out.size:
                    out[:] = values[part]
                else:
                    out.fill(0)
                    out[indices[part] - indices.dtype.type(start)] = values[part]
                results[name] = out
        return results

    def deliver_sparse(self) -> SparseSums:
        """Return {name: sparse sum}."""
        results = {}
        for vector, indices, values in self._join():
            for name, part, start in vector.cut(indices):
                shape, own = self.local.specs[name][0], index_dtype(vector.sizes[name])
                where = (indices[part] - indices.dtype.type(start)).astype(own, copy=False)
                is_full = where.size == vector.sizes[name]
                results[name] = make_sparse(None if is_full else where, values[part], shape)
        return results

    def _join(self) -> Iterator[tuple[Vector, Any, Any]]:
        """Yield the vectors with the indices and values of their chosen elements."""
        supports = self.find_supports()
        for name, vector in self.layout.vectors.items():
            parts = [tensors[name].values for tensors in self.decode() if name in tensors]
            yield vector, supports[name], np.concatenate([np.empty(0, vector.dtype), *parts])

    def balance(self, bounds: Bounds, remember: Callable[[Bounds], None]) -> None:
        """Compute the next bounds, unless an interrupt has lost the headers; ranks then use equal ranges."""
        if self.table:
            counts = [self.table[owner].detail for owner in self.owners]
            remember(tuple(balance(bounds, counts)))


def _encode_pieces(
    step: Step,
    vectors: Sparse,
    ranges: Sequence[Ranges],
    schemes: Schemes,
    delivery: Delivery | None,
    blocks: list[ByteArray],
) -> None:
    """Encode the range of each owner into ``blocks``, and note what the receivers decode."""
    seed = step.make_seed(0)
    exact = all(vector.codec == _ALL.value for vector in step.layout.vectors.values())
    decoded = []
    for turn, (rank, part) in enumerate(zip(step.owners, cut_all(vectors, ranges), strict=True)):
        blocks[rank], known = encode_elements(part, schemes, short_hash(struct.pack("<QQ", seed, turn)))
        if not exact and delivery is not None:
            decoded.append(known)
    if delivery is None:
        return
    delivery.send(None if exact else _concatenate(decoded, vectors))


def _concatenate(parts: Sequence[Sparse], vectors: Sparse) -> Sparse:
    """Return the values of all ranges at the indices of whole vectors."""
    joined = {}
    for name, vector in vectors.items():
        values = [part[name].values for part in parts if name in part]
        indices = None if vector.is_full else vector.indices
        joined[name] = make_sparse(indices, np.concatenate([vector.values[:0], *values]), vector.shape)
    return joined


def make_schemes(layout: Layout, find_error: Callable[[], float | None] | None) -> dict[str, wc.Scheme]:
    """Return {name of a vector: scheme that sends all elements by its value codec}.

    If the codec leaves its error to the selector, such as a budget, it has the error that this one has chosen
    for the rank's own container.
    """
    free = wc.codecs.ErrorBounded()
    codecs = {name: vector.codec for name, vector in layout.vectors.items()}
    error = find_error() if find_error is not None and free in codecs.values() else None
    bounded = free if error is None else wc.codecs.ErrorBounded(min(max(float(f"{error:.2g}"), 0.001), 0.5))
    return {name: replace(_ALL, value=bounded if codec == free else codec) for name, codec in codecs.items()}
