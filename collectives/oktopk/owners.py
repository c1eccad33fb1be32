"""Owners: each sums what all ranks have selected in its range of the elements, and chooses again.

An owner chooses as many of its sums as it has received elements, divided by the number of owners: those of
largest magnitude. So all owners together choose about as many as a rank has selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.channel import ByteArray
from collectives.exchange.specs import TensorSpec, get_limits
from collectives.oktopk.delivery import Kept
from collectives.oktopk.layout import Sparse
from collectives.sums.pieces import InvalidPiece, Ranges, cut, get_schema
from collectives.transport.reduce import Dense, accumulator_dtype
from collectives.transport.weights import Weights
from wirecodec.interop import as_bytes, encode_known, index_dtype, make_sparse, sum_sparse

Schemes = Mapping[str, wc.Scheme]
Vectors = Mapping[str, TensorSpec]
"""{name of a vector: (shape, dtype)}."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Sums that an owner has chosen.

    Attributes:
        block: their container.
        received: number of elements of all pieces.
        kept: {name: what the container lacks of them}.
    """

    block: ByteArray
    received: int
    kept: Mapping[str, Kept]


def encode_elements(tensors: Mapping[str, Any], schemes: Schemes, seed: int) -> tuple[ByteArray, Sparse]:
    """Encode flat tensors as one container, without their names; return it, and what receivers decode.

    Args:
        tensors: {name: SparseTensor or array}, with names of a Layout.
        schemes: {name: scheme}, which selects all elements.
        seed: of value codecs that draw random numbers.
    """
    block, sent = encode_known(tensors, {name: schemes[name] for name in tensors}, seed=seed)
    return as_bytes(block), sent


def decode_elements(blob: ByteArray, specs: Vectors, ranges: Ranges) -> Sparse:
    """Decode the tensors of a range. Raises WireError."""
    schema = get_schema(specs, ranges)
    decoded: Sparse = wc.decode_many(blob, limits=get_limits(schema, [blob]), schema=schema)
    return decoded


def choose(
    blobs: Mapping[int, ByteArray],
    specs: Vectors,
    ranges: Ranges,
    weights: Weights,
    own: int,
    turn: int,
    schemes: Schemes,
    seed: int,
) -> Chosen:
    """Sum the pieces of a range, and encode the sums of largest magnitude.

    Args:
        blobs: {rank: piece} of all ranks that take part, in rank order.
        specs: of the vectors.
        ranges: of this owner.
        weights: of the ranks.
        own: rank of this owner.
        turn: number from 0 to below the number of owners, which rounds the number of sums.
        schemes: of the sums.
        seed: of value codecs that draw random numbers.

    Raises:
        InvalidPiece: a piece cannot be decoded.
    """
    pieces = []
    for rank, blob in blobs.items():
        try:
            pieces.append(decode_elements(blob, specs, ranges))
        except wc.WireError as error:
            raise InvalidPiece(rank, error) from error
    received = sum(tensor.nnz for piece in pieces for tensor in piece.values())
    factors = [weights.of_rank(rank) for rank in blobs]
    means = {}
    for name, (start, stop) in ranges.items():
        dtype = accumulator_dtype(specs[name][1])
        indices, total = sum_sparse([piece[name] for piece in pieces], dtype, factors)
        with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
            total = total / dtype.type(weights.divisor)
        means[name] = make_sparse(indices, total, (stop - start,))
    largest = _take_largest(means, (received + turn) // len(blobs))
    rounded = {
        name: make_sparse(
            None if x.is_full else x.indices, x.values.astype(specs[name][1], copy=False), x.shape
        )
        for name, x in largest.items()
    }
    block, sent = encode_elements(rounded, schemes, seed)
    factor = weights.divisor / weights.of_rank(own)
    kept = {}
    for name, tensor in largest.items():
        with np.errstate(all="ignore"):
            errors = tensor.values - sent[name].values.astype(tensor.values.dtype)
            errors *= errors.dtype.type(factor)
        dtype = index_dtype(prod(specs[name][0]))
        kept[name] = Kept(tensor.indices.astype(dtype) + dtype.type(ranges[name][0]), errors)
    return Chosen(block, received, kept)


def _take_largest(tensors: Mapping[str, wc.SparseTensor], k: int) -> dict[str, wc.SparseTensor]:
    """Return the k stored elements of largest magnitude of several tensors; all, if there are not more.

    Of equal magnitudes, that of the lower name and index is taken. NaN counts as the largest.
    """
    sizes = [tensor.nnz for tensor in tensors.values()]
    if k >= sum(sizes):
        return dict(tensors)
    kept = np.zeros(sum(sizes), bool)
    if k:
        values = [tensor.values for tensor in tensors.values()]
        joined = np.concatenate(values).astype(np.result_type(*values), copy=False)
        found = wc.selectors.TopK(k=k).select(joined).indices
        kept[slice(None) if found is None else found] = True
    largest, end = {}, 0
    for (name, tensor), size in zip(tensors.items(), sizes, strict=True):
        here, end = kept[end : end + size], end + size
        largest[name] = tensor if here.all() and size else _take(tensor, here)
    return largest


def _take(tensor: wc.SparseTensor, kept: Dense) -> wc.SparseTensor:
    return make_sparse(tensor.indices[kept], tensor.values[kept], tensor.shape)


def cut_all(tensors: Sparse, ranges: Sequence[Ranges]) -> list[dict[str, Any]]:
    """Cut tensors into the ranges of the owners, with their stored zeros."""
    return [
        {name: cut(tensors[name], *bounds, sparse=True) for name, bounds in own.items()} for own in ranges
    ]
