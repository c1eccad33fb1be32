"""Containers of ranges of the elements, which the split algorithms exchange.

A range covers the elements of all tensors in the order of their names, so tensors of any size are divided
evenly. A message contains a rank's decoded values in one range, or all ranks' sums of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import TypeAlias

import numpy as np

import wirecodec as wc
from collectives.channel import ByteArray
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import TensorSpec, error_of_container, get_limits
from collectives.exchange.union import SparseSums, unite
from collectives.transport.reduce import Dense, accumulator_dtype, compute_bounds, divide_and_round
from collectives.transport.weights import Weights
from wirecodec.interop import as_bytes, make_sparse

Ranges: TypeAlias = dict[str, tuple[int, int]]

PIECES = "nonzero | rice | raw"
"""Scheme of the decoded values; with sparse results, all of them, zeros too."""
_SPARSE_PIECES = "all | rice | raw"


def assign_ranges(
    specs: Mapping[str, TensorSpec], ranks: int, bounds: Sequence[int] | None = None
) -> list[Ranges]:
    """Assign to each rank the elements that it sums, as {name: (start, stop)}; ranges are not empty.

    Args:
        specs: of the tensors.
        ranks: number of ranks.
        bounds: the ranks + 1 bounds of the ranges, ascending; None for equal ranges.
    """
    sizes = {name: prod(specs[name][0]) for name in sorted(specs, key=str.encode)}
    bounds = bounds or compute_bounds(sum(sizes.values()), ranks)
    ends = list(accumulate(sizes.values()))
    ranges: list[Ranges] = []
    for low, high in pairwise(bounds):
        ranges.append(
            {
                name: (max(low, end - size) - (end - size), min(high, end) - (end - size))
                for (name, size), end in zip(sizes.items(), ends, strict=True)
                if max(low, end - size) < min(high, end)
            }
        )
    return ranges


class InvalidPiece(Exception):
    """Error of a piece that cannot be decoded."""

    def __init__(self, rank: int, error: wc.WireError) -> None:
        super().__init__(rank, error)
        self.rank = rank
        self.error = error


def encode_pieces(
    tensors: Mapping[str, wc.SparseTensor], ranges: list[Ranges], *, sparse: bool = False
) -> list[ByteArray]:
    """Encode each rank's range of the tensors as a container; ``sparse``: with the stored zeros."""
    return [
        as_bytes(
            wc.encode_many(
                {name: cut(tensors[name], *bounds, sparse=sparse) for name, bounds in own.items()},
                _SPARSE_PIECES if sparse else PIECES,
                names=False,
            )
        )
        for own in ranges
    ]


def cut(tensor: wc.SparseTensor, start: int, stop: int, *, sparse: bool = False) -> wc.SparseTensor | Dense:
    """Return the elements from ``start`` to ``stop`` as a flat tensor; ``sparse``: with the stored zeros."""
    if tensor.is_full and sparse:
        return tensor.values[start:stop]
    if tensor.is_full:
        return wc.SparseTensor.from_dense(tensor.values[start:stop])
    edges = np.array([start, stop - 1], np.int64).astype(tensor.indices.dtype)
    first = int(np.searchsorted(tensor.indices, edges[0]))
    last = int(np.searchsorted(tensor.indices, edges[1], side="right"))
    return wc.SparseTensor(tensor.indices[first:last] - edges[0], tensor.values[first:last], (stop - start,))


def get_schema(specs: Mapping[str, TensorSpec], ranges: Ranges) -> dict[str, TensorSpec]:
    """Return the flat shapes and types of a rank's ranges."""
    return {name: ((stop - start,), specs[name][1]) for name, (start, stop) in ranges.items()}


def encode_sums(
    blobs: list[ByteArray],
    specs: Mapping[str, TensorSpec],
    ranges: Ranges,
    weights: Weights,
    scheme: str,
    *,
    sparse: bool = False,
) -> ByteArray:
    """Sum all ranks' pieces of one range and encode the sums as a container.

    Args:
        blobs: every rank's piece, in rank order.
        specs: of the whole tensors.
        ranges: of this rank.
        weights: of the ranks.
        scheme: of the sums.
        sparse: whether to sum over the union of the pieces' supports.

    Raises:
        InvalidPiece: a piece cannot be decoded.
    """
    schema = get_schema(specs, ranges)
    limits = get_limits(schema, blobs)
    totals = {name: np.zeros(shape, accumulator_dtype(dtype)) for name, (shape, dtype) in schema.items()}
    pieces = []
    for rank, blob in enumerate(blobs):
        try:
            if sparse:
                pieces.append(wc.decode_many(blob, limits=limits, schema=schema))
            else:
                wc.decode_add(blob, totals, scale=weights.of_rank(rank), limits=limits, schema=schema)
        except wc.WireError as error:
            raise InvalidPiece(rank, error) from error
    results: dict[str, wc.SparseTensor | Dense]
    if sparse:
        union = unite(pieces, schema, weights.divisor, [*map(weights.of_rank, range(len(blobs)))])
        results = {name: tensor.values if tensor.is_full else tensor for name, tensor in union.items()}
    else:
        results = {name: divide_and_round(x, weights.divisor, specs[name][1]) for name, x in totals.items()}
    return as_bytes(wc.encode_many(results, scheme, names=False))


def decode_blocks(
    blobs: Sequence[ByteArray],
    specs: Mapping[str, TensorSpec],
    ranges: Sequence[Ranges],
    ranks: Sequence[int] | None = None,
) -> list[SparseSums]:
    """Decode the sums of all ranges; raise CollectiveError on all ranks if a container is invalid.

    Args:
        blobs: container of each range.
        specs: of the whole tensors.
        ranges: one or more.
        ranks: that have sent them; None for all ranks.
    """
    decoded = []
    for rank, blob, own in zip(ranks or range(len(blobs)), blobs, ranges, strict=True):
        schema = get_schema(specs, own)
        try:
            decoded.append(wc.decode_many(blob, limits=get_limits(schema, [blob]), schema=schema))
        except wc.WireError as error:
            raise error_of_container(rank, error) from error
    return decoded


def join_sums(decoded: Sequence[SparseSums], local: Encoding, ranges: Sequence[Ranges]) -> dict[str, Dense]:
    """Concatenate the sums of all ranges, in the caller's memory if there is any."""
    out = {
        name: local.targets.allocate(name, prod(shape), dtype) for name, (shape, dtype) in local.specs.items()
    }
    for tensors, own in zip(decoded, ranges, strict=True):
        for name, (start, stop) in own.items():
            tensors[name].to_dense(out=out[name][start:stop])
    return out


def join_union(
    decoded: Sequence[Mapping[str, wc.SparseTensor]], local: Encoding, ranges: Sequence[Ranges]
) -> SparseSums:
    """Concatenate the sparse sums of all ranges."""
    sums = {}
    for name, (shape, dtype) in local.specs.items():
        pieces = [
            (tensors[name], own[name][0]) for tensors, own in zip(decoded, ranges, strict=True) if name in own
        ]
        values = np.concatenate([np.empty(0, dtype), *(piece.values for piece, _ in pieces)])
        wide = np.dtype(np.int32 if prod(shape) <= 2**31 else np.int64)
        indices = np.concatenate(
            [np.empty(0, wide), *(piece.indices.astype(wide) + wide.type(start) for piece, start in pieces)]
        )
        sums[name] = make_sparse(None if values.size == prod(shape) else indices, values, shape)
    return sums
