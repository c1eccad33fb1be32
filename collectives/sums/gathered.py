"""Algorithm "allgather": every rank gathers all containers and sums them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    sums = _add_containers(local, blobs)
    return {
        name: divide_and_round(sums[name], divisor, dtype, local.targets.flat.get(name))
        for name, (_, dtype) in local.specs.items()
    }


def rehearse(local: Encoding, proposal: Header) -> None:
    """Decode and sum this rank's container only."""
    if local.sparse:
        sum_containers(local, [local.blob], 1)
    else:
        _add_containers(local, [local.blob])


def compute_cost(work: Workload) -> Cost:
    """Compute the cost of a ring of containers, and of adding them all."""
    return Cost(work.ranks - 1, work.gathered, 3 * work.elements, work.stored)


def _add_containers(local: Encoding, blobs: Sequence[ByteArray]) -> dict[str, Dense]:
    """Add containers in rank order to +0, on the host.

    Sums are in the caller's memory if it has their type and if all containers can be checked before the first
    sum changes.
    """
    direct = local.targets.flat if len(blobs) <= MAX_DECODED else {}
    sums = {}
    for name, (shape, dtype) in local.specs.items():
        wide = accumulator_dtype(dtype)
        target = direct.get(name)
        sums[name] = np.empty(prod(shape), wide) if target is None or dtype != wide else target
    _decode_into(local, blobs[:MAX_DECODED], sums, decode_sum)
    for first in range(MAX_DECODED, len(blobs), MAX_DECODED):
        _decode_into(local, blobs[first : first + MAX_DECODED], sums, wc.decode_add, first)
    return sums


def _decode_into(
    local: Encoding,
    blobs: Sequence[ByteArray],
    sums: dict[str, Any],
    decode: Callable[..., None],
    first: int = 0,
) -> None:
    """Decode consecutive ranks' containers, from rank ``first`` on, into sums."""
    limits = local.get_limits(blobs)
    try:
        if local.named:
            decode(blobs, sums, limits=limits, schema=local.specs)
        else:
            decode(blobs, sums[ONLY], limits=limits, schema=local.specs[ONLY])
    except wc.WireError as error:
        rank, error.container = first + (error.container or 0), None
        raise error_of_container(rank, error) from error
