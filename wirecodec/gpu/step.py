"""A Compressor's step on the device: add residuals, select, encode, and compute the next residuals.

The CPU's code computes the step of a tensor that holds NaN or Inf, and of one whose type has no kernel for
the sum. It reports the error, or sends the value. Other tensors leave the device only as compressed bytes, if
their scheme has kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.cpu import group as host_group
from wirecodec.cpu import momentum as host_momentum
from wirecodec.cpu import residual as host
from wirecodec.errors import EncodeError
from wirecodec.gpu import decode as decoding
from wirecodec.gpu.arrays import copy_to_host
from wirecodec.gpu.encode import encode_supports
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.momentum import Addend, add_momentum, decay_residual, stop_momentum
from wirecodec.gpu.residual import AccumulatedGradient
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import SIZE_LIMIT, choose, select_sum
from wirecodec.gpu.support import DeviceSupport
from wirecodec.jobs import TensorJob
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.support import DecodedChunk, Support
from wirecodec.tensors import DeviceFlat, Flat
from wirecodec.validation import explain_residual

_PLAIN = ErrorFeedback()


@dataclass(frozen=True, eq=False)
class SelectedTensor:
    """Selected elements of one tensor.

    Attributes:
        job: the tensor's settings and state.
        support: on the device, or on the host.
        selector: the selector's next state, or None.
        addend: addend of the residual in this step, if it is not the gradient.
        total: gradient + residual; None if no residual is kept.
    """

    job: TensorJob
    support: DeviceSupport | Support
    selector: Any
    addend: Addend | host_momentum.Addend | None
    total: AccumulatedGradient | host.AccumulatedGradient | None


def select_tensor(device: Device, flat: DeviceFlat, wanted: TensorJob, factor: float = 1.0) -> SelectedTensor:
    """Apply clipping and momentum to one tensor, add its residual, and select. Raises EncodeError.

    Args:
        device: of the arrays.
        flat: the gradient.
        wanted: its settings and state.
        factor: of clipping.
    """
    residual, size = wanted.residual, flat.raw_bits.size
    if residual is not None and residual.size != size:
        raise EncodeError(explain_residual(size, residual.size))
    if size > SIZE_LIMIT:
        raise EncodeError(f"{size} elements; a Compressor on a GPU takes at most 2^31")
    try:
        addend, seen, job = add_terms(device, flat, wanted, factor)
        return _select(device, seen, addend, wanted, job)
    except HostFallback:
        return _select_on_host(device, flat, wanted, factor)


def add_terms(
    device: Device, flat: DeviceFlat, wanted: TensorJob, factor: float
) -> tuple[Addend | None, DeviceFlat, TensorJob]:
    """Apply clipping, momentum and decay (``cpu.group.accumulate``).

    Args:
        device: of the arrays.
        flat: the gradient.
        wanted: its settings and state.
        factor: of clipping.

    Returns the addend of the residual, None if it is the gradient; the same in the gradient's type; and the
    remaining job. Raises HostFallback.
    """
    if factor == 1 and wanted.feedback in (None, _PLAIN):
        return None, flat, wanted
    addend = add_momentum(device, wanted, flat, factor)
    rule = wanted.residual_rule(exact=addend.flat.dtype == flat.dtype)
    job = replace(wanted, feedback=rule, residual=decay_residual(device, wanted))
    total = AccumulatedGradient.of(device, _PLAIN, addend.flat, None, None, flat.dtype)
    return addend, replace(total.sendable(), shape=flat.shape), job


def _select(
    device: Device,
    flat: DeviceFlat,
    addend: Addend | None,
    wanted: TensorJob,
    job: TensorJob,
) -> SelectedTensor:
    """Add the residual of one tensor, and select. Raises EncodeError.

    Args:
        device: of the arrays.
        flat: (size,) addend of the residual, in the gradient's type.
        addend: the same in the sum's type; None if it is the gradient.
        wanted: settings and state of the tensor.
        job: the same; the feedback is the residual's rule, and the residual has decayed.
    """
    scheme, rule, residual = job.scheme, job.feedback, job.residual
    context = Context(job.seed, flat, job.state, job.last, job.header)
    if rule is None:
        return SelectedTensor(wanted, *choose(device, flat, scheme, context), addend, None)
    assert isinstance(rule, ErrorFeedback)
    if residual is not None and flat.dtype == residual.dtype and scheme.transform is None:
        support = select_sum(device, flat, residual, scheme.select, context)
        if support is not None:
            x = support.flat.raw_bits.view(support.flat.dtype)
            total = AccumulatedGradient(device, rule, flat, residual, x)
            return SelectedTensor(wanted, support, support.state, addend, total)
    try:
        source = flat if addend is None else addend.flat
        total = AccumulatedGradient.of(device, rule, source, residual, None, flat.dtype)
        seen = flat if residual is None else total.sendable()
    except HostFallback:
        if addend is not None:
            raise
        return _select_on_host(device, flat, wanted, 1.0)
    return SelectedTensor(wanted, *choose(device, seen, scheme, context), addend, total)


def _select_on_host(device: Device, flat: DeviceFlat, job: TensorJob, factor: float) -> SelectedTensor:
    """Do the same by the CPU's code."""
    gradient = copy_to_host(device, flat).data
    residual, momentum = (None if x is None else device.get(x) for x in (job.residual, job.momentum))
    moved = replace(job, residual=residual, momentum=momentum)
    one = host_group.select_alone(host_group.accumulate(None, Flat(gradient, flat.shape), moved, factor))
    return SelectedTensor(job, one.support, one.selector, one.addend, one.total)


def encode(
    device: Device, selected: Mapping[str, SelectedTensor], seed: int, *, names: bool, fuse: int
) -> Any:
    """Encode the selected elements, in the order of keys, as one container. EncodeError names the tensor."""
    supports = {name: tensor.support for name, tensor in selected.items()}
    schemes = {name: tensor.job.scheme for name, tensor in selected.items()}
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
    values = device.get(bits).view(total.sent_dtype or total.gradient.dtype)
    residual = total.remainder(None if indices is None else device.get(indices), values)
    return device.put(np.ascontiguousarray(residual))


def next_momentum(device: Device, tensor: SelectedTensor, sent: Sequence[DecodedChunk]) -> Any:
    """Compute the next momentum (size,) on the device; None if none is kept. ``sent`` as above."""
    addend = tensor.addend
    if addend is None or addend.momentum is None:
        return None
    if isinstance(addend, Addend):
        return stop_momentum(device, tensor.job, addend.momentum, sent)
    momentum = np.where(np.isfinite(addend.momentum), addend.momentum, 0).astype(addend.momentum.dtype)
    return stop_momentum(device, tensor.job, device.put(np.ascontiguousarray(momentum)), sent)
