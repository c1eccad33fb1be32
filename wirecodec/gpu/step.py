"""A Compressor's step on the device: add residuals, choose, encode, and keep what receivers will not get.

A tensor of which something is not finite is looked at by the CPU's code, which says what is wrong with it or
carries it; so is one of a type that has no kernels for its sum. Others leave the device as compressed bytes
alone, where their scheme has kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat, Flat, read_only
from wirecodec.cpu import accumulate as host
from wirecodec.cpu.select import choose
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.gpu import decode as decoding
from wirecodec.gpu.accumulate import AccumulatedGradient
from wirecodec.gpu.encode import chosen, encoded_supports, on_host
from wirecodec.gpu.select.dispatch import select_sum
from wirecodec.gpu.support import Context, DeviceSupport, Refused
from wirecodec.kernels.cuda.device import Device
from wirecodec.step import TensorJob
from wirecodec.support import DecodedChunk, Support

__all__ = ["Taken", "encode", "left", "take"]

MOST = 2**31
"""Elements of a tensor."""


@dataclass(frozen=True, eq=False)
class Taken:
    """What was chosen of one tensor.

    Attributes:
        job: what was to be done.
        support: on the device, or on the host.
        selector: the selector's next state, or None.
        total: gradient + residual; None where nothing is kept.
    """

    job: TensorJob
    support: DeviceSupport | Support
    selector: Any
    total: AccumulatedGradient | host.AccumulatedGradient | None


def take(device: Device, flat: DeviceFlat, job: TensorJob) -> Taken:
    """One tensor: add its residual, choose. Raises EncodeError."""
    scheme, rule, residual = job.scheme, job.feedback, job.residual
    if residual is not None and residual.size != flat.words.size:
        raise EncodeError(f"{flat.words.size} elements; its residual has {residual.size}")
    if flat.words.size > MOST:
        raise EncodeError(f"{flat.words.size} elements; on a GPU a Compressor takes 2^31 at most")
    context = Context(job.seed, flat, job.state, job.last)
    if rule is None:
        return Taken(job, *chosen(device, flat, scheme, context), None)
    if residual is not None and flat.dtype == residual.dtype and scheme.transform is None:
        support = select_sum(device, flat, residual, scheme.select, context)
        if support is not None:
            x = support.flat.words.view(support.flat.dtype)
            total = AccumulatedGradient(device, rule, flat, residual, x)
            return Taken(job, support, support.state, total)
    try:
        total = AccumulatedGradient.of(device, rule, flat, residual)
        seen = flat if residual is None else total.sendable()
    except Refused:
        return _taken_on_host(device, flat, job, rule)
    return Taken(job, *chosen(device, seen, scheme, context), total)


def _taken_on_host(device: Device, flat: DeviceFlat, job: TensorJob, rule: ErrorFeedback) -> Taken:
    """The same by the CPU's code."""
    gradient = on_host(device, flat).data
    residual = None if job.residual is None else device.get(job.residual)
    total = host.AccumulatedGradient.of(rule, gradient, residual)
    seen = gradient if residual is None else read_only(total.sendable())
    found = choose(Flat(seen, flat.shape), job.scheme, gradient=gradient, state=job.state, seed=job.seed)
    return Taken(job, *found, total)


def encode(device: Device, taken: Mapping[str, Taken], seed: int, *, names: bool, fuse: int) -> Any:
    """What was taken, in the order of keys, as one container on the device; EncodeError names the tensor."""
    supports = {name: each.support for name, each in taken.items()}
    schemes = {name: each.job.scheme for name, each in taken.items()}
    return encoded_supports(device, supports, schemes, seed, b"", names=names, fuse=fuse)


def left(device: Device, taken: Taken, sent: Sequence[DecodedChunk]) -> Any:
    """The next residual (size,), float32 or float64, on the device; None where nothing is kept.

    ``sent``: what receivers decode, in chunks, values as words.
    """
    total = taken.total
    if total is None:
        return None
    if isinstance(total, AccumulatedGradient):
        return total.remainder(sent)
    indices, bits = decoding.joined(device, sent, total.x.size)
    values = device.get(bits).view(total.gradient.dtype)
    left = total.remainder(None if indices is None else device.get(indices), values)
    return device.put(np.ascontiguousarray(left))
