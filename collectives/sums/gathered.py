"""Algorithm "allgather": every rank gathers all containers and sums them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.header import Header
from collectives.channel import ByteArray, Channel
from collectives.cost_model import Cost, Workload
from collectives.exchange.encoding import Encoding
from collectives.exchange.specs import ONLY, error_of_container
from collectives.exchange.union import sum_containers
from collectives.transport.reduce import Dense, accumulator_dtype, divide_and_round
from wirecodec.interop import decode_sum, gpu_mean, gpu_zeros

MAX_DECODED = 16
"""Containers that are decoded before they are added; it bounds the memory for their values."""


def run(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Any]:
    """Gather every rank's container and sum them, as ``AllreduceAlgorithm.run``.

    Sums are in the caller's memory if there is any.

    Raises:
        CollectiveError: a container cannot be decoded; the same on all ranks. The caller's memory is
            unchanged.
        Timeout: a rank does not take part.
    """
    blobs = local.gather(channel)
    if local.sparse:
        return sum_containers(local, blobs, divisor)
    if local.gpu is not None:
        with local.gpu.current():
            on_gpu = {
                name: gpu_zeros(prod(shape), accumulator_dtype(dtype))
                for name, (shape, dtype) in local.specs.items()
            }
            _decode_into(local, blobs, on_gpu, wc.decode_add)
            return {name: gpu_mean(on_gpu[name], divisor, dtype) for name, (_, dtype) in local.specs.items()}
    known = {} if local.sent is None else {channel.rank: local.sent}
    sums, divisor = _add_containers(local, blobs, divisor, known)
    return {
        name: divide_and_round(sums[name], divisor, dtype, local.targets.flat.get(name))
        for name, (_, dtype) in local.specs.items()
    }


def rehearse(local: Encoding, proposal: Header) -> None:
    """Decode and sum this rank's container only."""
    if local.sparse:
        sum_containers(local, [local.blob], 1)
    else:
        _add_containers(local, [local.blob], 2, {})


def compute_cost(work: Workload) -> Cost:
    """Compute the cost of a ring of containers, and of adding them all."""
    return Cost(work.ranks - 1, work.gathered, 3 * work.elements, work.stored)


def _add_containers(
    local: Encoding,
    blobs: Sequence[ByteArray],
    divisor: int,
    sent: Mapping[int, Mapping[str, wc.SparseTensor]],
) -> tuple[dict[str, Dense], int]:
    """Add containers in rank order to +0, on the host, and divide the sums if they are few.

    Sums are in the caller's memory if it has their type and if all containers can be checked before the first
    sum changes.

    Args:
        local: this rank's side, whose ``is_finite`` is set if the sums have the results' types.
        blobs: all ranks' containers.
        divisor: of the sums.
        sent: tensors of this rank's container by its place, which is not decoded again; or nothing.

    Returns:
        The sums, and what is left of the divisor.
    """
    direct = local.targets.flat if len(blobs) <= MAX_DECODED else {}
    sums, wide = {}, True
    for name, (shape, dtype) in local.specs.items():
        target = direct.get(name)
        if dtype.itemsize < 4:
            target, wide = None, False
        sums[name] = np.empty(prod(shape), accumulator_dtype(dtype)) if target is None else target
    if len(blobs) <= MAX_DECODED:
        finite = _decode_into(local, blobs, sums, partial(decode_sum, divisor=divisor, sent=sent))
        local.is_finite = finite and wide
        return sums, 1
    _decode_into(local, blobs[:MAX_DECODED], sums, partial(decode_sum, sent=sent))
    for first in range(MAX_DECODED, len(blobs), MAX_DECODED):
        _decode_into(local, blobs[first : first + MAX_DECODED], sums, wc.decode_add, first)
    return sums, divisor


def _decode_into(
    local: Encoding,
    blobs: Sequence[ByteArray],
    sums: dict[str, Any],
    decode: Callable[..., Any],
    first: int = 0,
) -> bool:
    """Decode consecutive ranks' containers, from rank ``first`` on; return what ``decode`` returns."""
    limits = local.get_limits(blobs)
    try:
        if local.named:
            return bool(decode(blobs, sums, limits=limits, schema=local.specs))
        return bool(decode(blobs, sums[ONLY], limits=limits, schema=local.specs[ONLY]))
    except wc.WireError as error:
        rank, error.container = first + (error.container or 0), None
        raise error_of_container(rank, error) from error
