"""Sparse sums over the union of the ranks' supports, for ``allreduce(sparse=True)``.

An element is in the union if at least one rank stores it in its container, even if its value or the sum is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import wirecodec as wc
from collectives.channel import ByteArray
from collectives.device import GpuDevice
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import ONLY, TensorSpec, error_of_container
from collectives.transport.reduce import accumulator_dtype, divide_and_round
from collectives.transport.weights import Weights
from wirecodec.interop import BFLOAT16, decode_many_to, decode_to, make_sparse, sum_sparse

SparseSums: TypeAlias = dict[str, wc.SparseTensor]


def sum_containers(local: Encoding, blobs: Sequence[ByteArray], weights: Weights) -> SparseSums:
    """Decode and sum all ranks' containers, in rank order.

    Args:
        local: this rank's side of the exchange.
        blobs: every rank's container.
        weights: of the ranks.

    Raises:
        CollectiveError: a container cannot be decoded; the same on all ranks.
    """
    limits, decoded = local.get_limits(blobs), []
    taking_part = [rank for rank in range(len(blobs)) if weights.of_rank(rank)]
    for rank in taking_part:
        blob = blobs[rank]
        try:
            if local.named:
                decoded.append(decode_many_to(False, blob, limits=limits, schema=local.specs))
            else:
                decoded.append({ONLY: decode_to(False, blob, limits=limits, schema=local.specs[ONLY])})
        except wc.WireError as error:
            raise error_of_container(rank, error) from error
    return unite(decoded, local.specs, weights.divisor, [weights.of_rank(rank) for rank in taking_part])


def unite(
    tensors: Sequence[Mapping[str, wc.SparseTensor]],
    specs: Mapping[str, TensorSpec],
    divisor: float,
    factors: Sequence[float],
) -> SparseSums:
    """Sum tensors over the union of their supports.

    Args:
        tensors: {name: tensor} of every rank, in rank order, on the host.
        specs: {name: (shape, dtype)}.
        divisor: of the sums.
        factors: of the tensors' values, by rank.
    """
    sums = {}
    for name, (shape, dtype) in specs.items():
        indices, total = sum_sparse(
            [rank_tensors[name] for rank_tensors in tensors], accumulator_dtype(dtype), factors
        )
        sums[name] = make_sparse(indices, divide_and_round(total, divisor, dtype), shape)
    return sums


def move_sums(local: Encoding, sums: SparseSums) -> Any:
    """Return sums as the caller gets them: one or many, on the GPU that holds all tensors, or on the host."""
    moved = sums if local.gpu is None else _move_to_gpu(sums, local.gpu)
    return moved[ONLY] if local.bare else moved


def _move_to_gpu(sums: SparseSums, gpu: GpuDevice) -> SparseSums:
    """Copy sums to a GPU; bfloat16 ones stay on the host, because CuPy does not have the type."""
    moved = {}
    with gpu.current():
        for name, tensor in sums.items():
            if tensor.dtype == BFLOAT16:
                moved[name] = tensor
                continue
            indices = None if tensor.is_full else gpu.cupy.asarray(tensor.indices)
            moved[name] = make_sparse(indices, gpu.cupy.asarray(tensor.values), tensor.shape)
    return moved
