"""Algorithm "allgather": every rank gathers all containers and sums them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import prod
from operator import is_
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.header import Header
from collectives.channel import ByteArray, Channel
from collectives.cost_model import Cost, Workload
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import ONLY, error_of_container, measure
from collectives.exchange.union import sum_containers
from collectives.transport.reduce import Dense, accumulator_dtype, divide_and_round
from collectives.transport.weights import Weights
from wirecodec.interop import decode_sum, gpu_means, gpu_zeros

MAX_DECODED = 16
"""Containers that are decoded before they are added; it bounds the memory for their values."""


def run(channel: Channel, local: Encoding, weights: Weights, proposal: Header) -> dict[str, Any]:
    """Gather every rank's container and sum them, as ``AllreduceAlgorithm.run``.

    Sums are in the caller's memory if there is any.

    Raises:
        CollectiveError: a container cannot be decoded; the same on all ranks. The caller's memory is
            unchanged.
        Timeout: a rank does not take part.
    """
    return sum_gathered(local, local.gather(channel), weights, channel.rank)


def sum_gathered(
    local: Encoding, blobs: Sequence[ByteArray], weights: Weights, own: int | None
) -> dict[str, Any]:
    """Sum the containers of all ranks, in rank order.

    Args:
        local: this rank's side.
        blobs: all ranks' containers.
        weights: of the ranks.
        own: number of this rank's container among them; None if it is not there.

    Raises:
        CollectiveError: a container cannot be decoded; the same on all ranks.
    """
    if local.sparse:
        return sum_containers(local, blobs, weights)
    if local.gpu is not None:
        with local.gpu.current():
            return _sum_on_gpu(local, blobs, weights)
    known = {} if local.sent is None or own is None else {own: local.sent}
    sums, divisor = _add_containers(local, blobs, weights, known)
    flat = local.targets.flat
    is_done = divisor == 1 and measure(local.specs).are_wide
    if is_done and all(map(is_, sums.values(), map(flat.get, sums, sums.values()))):
        return sums
    return {
        name: divide_and_round(sums[name], divisor, dtype, flat.get(name))
        for name, (_, dtype) in local.specs.items()
    }


def _sum_on_gpu(local: Encoding, blobs: Sequence[ByteArray], weights: Weights) -> dict[str, Any]:
    """Sum the containers of all ranks on the current GPU; return raw bits by name."""
    kinds = [(dtype, [n for n, spec in local.specs.items() if spec[1] == dtype]) for dtype in local.dtypes]
    sums: dict[str, Any] = {}
    for dtype, names in kinds:
        sizes = [prod(local.specs[name][0]) for name in names]
        sums |= dict(zip(names, gpu_zeros(sizes, accumulator_dtype(dtype)), strict=True))
    on_gpu = {name: sums[name] for name in local.specs}
    _add_in_turn(local, blobs, weights, on_gpu)
    means: dict[str, Any] = {}
    for dtype, names in kinds:
        means |= dict(zip(names, gpu_means([sums[n] for n in names], weights.divisor, dtype), strict=True))
    return {name: means[name] for name in local.specs}


def rehearse(local: Encoding, proposal: Header) -> None:
    """Decode and sum this rank's container only."""
    if local.sparse:
        sum_containers(local, [local.blob], Weights())
    else:
        _add_containers(local, [local.blob], Weights(2.0), {})


def compute_cost(work: Workload) -> Cost:
    """Compute the cost of a ring of containers, and of adding them all."""
    return Cost(work.ranks - 1, work.gathered, 3 * work.elements, work.stored)


def _add_containers(
    local: Encoding,
    blobs: Sequence[ByteArray],
    weights: Weights,
    sent: Mapping[int, Mapping[str, wc.SparseTensor]],
) -> tuple[dict[str, Dense], float]:
    """Add weighted containers in rank order to +0, on the host, and divide the sums if they are few.

    Sums are in the caller's memory if it has their type and if all containers can be checked before the first
    sum changes.

    Args:
        local: this rank's side, whose ``is_finite`` is set if the sums have the results' types.
        blobs: all ranks' containers.
        weights: of the ranks.
        sent: tensors of this rank's container by its rank, which is not decoded again; or nothing.

    Returns:
        The sums, and what is left of the divisor.
    """
    ranks = [rank for rank in range(len(blobs)) if weights.of_rank(rank)]
    first, later = ranks[:MAX_DECODED], ranks[MAX_DECODED:]
    direct = {} if later else local.targets.flat
    sizes = measure(local.specs)
    kinds = {dtype: dtype if sizes.are_wide else accumulator_dtype(dtype) for dtype in sizes.dtypes}
    sums = {
        name: direct[name] if name in direct and kinds[dtype] == dtype else np.empty(size, kinds[dtype])
        for (name, size), (_, dtype) in zip(sizes.elements.items(), local.specs.values(), strict=True)
    }
    add = partial(
        decode_sum,
        divisor=1 if later else weights.divisor,
        scales=[weights.of_rank(rank) for rank in first],
        sent={place: sent[rank] for place, rank in enumerate(first) if rank in sent},
    )
    finite = _decode_into(local, blobs, first, sums, add)
    if not later:
        local.is_finite = finite and sizes.are_wide
        return sums, 1
    _add_in_turn(local, blobs, weights, sums, later)
    return sums, weights.divisor


def _add_in_turn(
    local: Encoding,
    blobs: Sequence[ByteArray],
    weights: Weights,
    sums: dict[str, Any],
    ranks: Sequence[int] | None = None,
) -> None:
    """Add weighted containers to sums in rank order, several of the same weight at once."""
    chosen = [rank for rank in ranks or range(len(blobs)) if weights.of_rank(rank)]
    for factor, same in groupby(chosen, weights.of_rank):
        members = list(same)
        for start in range(0, len(members), MAX_DECODED):
            add = partial(wc.decode_add, scale=factor)
            _decode_into(local, blobs, members[start : start + MAX_DECODED], sums, add)


def _decode_into(
    local: Encoding,
    blobs: Sequence[ByteArray],
    ranks: Sequence[int],
    sums: dict[str, Any],
    decode: Callable[..., Any],
) -> bool:
    """Decode the containers of some ranks; return what ``decode`` returns."""
    chosen = [blobs[rank] for rank in ranks]
    limits = local.get_limits(chosen)
    try:
        if local.named:
            return bool(decode(chosen, sums, limits=limits, schema=local.specs))
        return bool(decode(chosen, sums[ONLY], limits=limits, schema=local.specs[ONLY]))
    except wc.WireError as error:
        rank, error.container = ranks[error.container or 0], None
        raise error_of_container(rank, error) from error
