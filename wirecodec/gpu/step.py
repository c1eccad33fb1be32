"""A Compressor's step on the device: add residuals, select, encode, and compute the next residuals.

The CPU's code computes the step of a tensor that holds NaN or Inf, and of one whose type has no kernel for
the sum. It reports the error, or sends the value. Other tensors leave the device only as compressed bytes, if
their scheme has kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat, Flat, read_only
from wirecodec.cpu import residual as host
from wirecodec.cpu import select as host_select
from wirecodec.errors import EncodeError
from wirecodec.gpu import decode as decoding
from wirecodec.gpu.arrays import copy_to_host
from wirecodec.gpu.encode import encode_supports
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.residual import AccumulatedGradient
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import SIZE_LIMIT, choose, select_sum
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.step import TensorJob
from wirecodec.support import DecodedChunk, Support

__all__ = ["SelectedTensor", "encode", "next_residual", "select_tensor"]


@dataclass(frozen=True, eq=False)
class SelectedTensor:
    """Selected elements of one tensor.

    Attributes:
        job: the tensor's settings and state.
        support: on the device, or on the host.
        selector: the selector's next state, or None.
        total: gradient + residual; None if no residual is kept.
    """

    job: TensorJob
    support: DeviceSupport | Support
    selector: Any
    total: AccumulatedGradient | host.AccumulatedGradient | None


def select_tensor(device: Device, flat: DeviceFlat, job: TensorJob, header: int = 0) -> SelectedTensor:
    """Add the residual of one tensor, and select; ``header`` is as in ``Context``. Raises EncodeError."""
    scheme, rule, residual = job.scheme, job.feedback, job.residual
    if residual is not None and residual.size != flat.raw_bits.size:
        raise EncodeError(f"{flat.raw_bits.size} elements; its residual has {residual.size}")
    if flat.raw_bits.size > SIZE_LIMIT:
        raise EncodeError(f"{flat.raw_bits.size} elements; a Compressor on a GPU takes at most 2^31")
    context = Context(job.seed, flat, job.state, job.last, header)
    if rule is None:
        return SelectedTensor(job, *choose(device, flat, scheme, context), None)
    if residual is not None and flat.dtype == residual.dtype and scheme.transform is None:
        support = select_sum(device, flat, residual, scheme.select, context)
        if support is not None:
            x = support.flat.raw_bits.view(support.flat.dtype)
            total = AccumulatedGradient(device, rule, flat, residual, x)
            return SelectedTensor(job, support, support.state, total)
    try:
        total = AccumulatedGradient.of(device, rule, flat, residual)
        seen = flat if residual is None else total.sendable()
    except HostFallback:
        return _select_on_host(device, flat, job, rule, header)
    return SelectedTensor(job, *choose(device, seen, scheme, context), total)


def _select_on_host(
    device: Device, flat: DeviceFlat, job: TensorJob, rule: ErrorFeedback, header: int
) -> SelectedTensor:
    """Do the same by the CPU's code."""
    gradient = copy_to_host(device, flat).data
    residual = None if job.residual is None else device.get(job.residual)
    total = host.AccumulatedGradient.of(rule, gradient, residual)
    seen = gradient if residual is None else read_only(total.sendable())
    found = host_select.choose(
        Flat(seen, flat.shape),
        job.scheme,
        gradient=gradient,
        state=job.state,
        seed=job.seed,
        header=header,
    )
    return SelectedTensor(job, *found, total)


def encode(
    device: Device, selected: Mapping[str, SelectedTensor], seed: int, *, names: bool, fuse: int
) -> Any:
    """Encode the selected elements, in the order of keys, as one container. EncodeError names the tensor."""
    supports = {name: each.support for name, each in selected.items()}
    schemes = {name: each.job.scheme for name, each in selected.items()}
    return encode_supports(device, supports, schemes, seed, b"", names=names, fuse=fuse)


def next_residual(device: Device, tensor: SelectedTensor, sent: Sequence[DecodedChunk]) -> Any:
    """Compute the next residual (size,), float32 or float64, on the device; None if none is kept.

    ``sent`` is the decoded chunks; their values are raw bits.
    """
    total = tensor.total
    if total is None:
        return None
    if isinstance(total, AccumulatedGradient):
        return total.remainder(sent)
    indices, bits = decoding.concatenate_parts(device, sent, total.x.size)
    values = device.get(bits).view(total.gradient.dtype)
    residual = total.remainder(None if indices is None else device.get(indices), values)
    return device.put(np.ascontiguousarray(residual))
