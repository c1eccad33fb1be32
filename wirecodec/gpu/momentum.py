"""Addend of a residual on a GPU in a step: the bits of ``wirecodec.cpu.momentum``.

All elements are finite here. A tensor with NaN or Inf raises HostFallback, and the host computes its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.cpu import momentum as host
from wirecodec.errors import EncodeError
from wirecodec.gpu.fallback import HostFallback
from wirecodec.jobs import TensorJob
from wirecodec.kernels.cuda import elements, feedback
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.feedback import ErrorFeedback, MomentumCorrection
from wirecodec.support import DecodedChunk
from wirecodec.tensors import DeviceFlat


@dataclass(frozen=True, eq=False)
class Addend:
    """Addend of a tensor's residual in a step.

    Attributes:
        flat: float32 or float64.
        momentum: (size,) the next momentum, of the same type; None without one. It may be ``flat``'s memory.
    """

    flat: DeviceFlat
    momentum: Any = None


def add_momentum(device: Device, job: TensorJob, gradient: DeviceFlat, factor: float) -> Addend:
    """Multiply a gradient by the factor of clipping, and add the momentum of its feedback.

    Raises HostFallback if a result is not finite, EncodeError if the momentum has another size.
    """
    rule, before, size = job.feedback, job.momentum, gradient.raw_bits.size
    corrects = isinstance(rule, MomentumCorrection)
    if corrects and before is not None and before.size != size:
        raise EncodeError(f"the gradient has {size} elements; its momentum has {before.size}")
    types = [np.dtype(x.dtype) for x in (job.residual, before) if x is not None]
    dtype = np.result_type(gradient.dtype, np.float32, *types)
    if 4 * gradient.dtype.itemsize <= dtype.itemsize:
        raise HostFallback
    wide = elements.convert(device, gradient.raw_bits, gradient.dtype, dtype)
    if not corrects and factor == 1:
        return Addend(DeviceFlat(wide.view(f"u{dtype.itemsize}"), dtype, gradient.shape))
    old = None
    if before is not None:
        raw = before.view(f"u{before.dtype.itemsize}")
        old = elements.convert(device, raw, np.dtype(before.dtype), dtype)
    u = device.empty(size, dtype)
    nesterov = isinstance(rule, MomentumCorrection) and rule.nesterov
    ahead = device.empty(size, dtype) if nesterov else None
    keep = rule.momentum if isinstance(rule, MomentumCorrection) else 0.0
    if size and device.get(feedback.accumulate_momentum(device, wide, old, (keep, factor), u, ahead))[0]:
        raise HostFallback
    data = u if ahead is None else ahead
    return Addend(DeviceFlat(data.view(f"u{dtype.itemsize}"), dtype, gradient.shape), u if corrects else None)


def stop_momentum(device: Device, job: TensorJob, momentum: Any, sent: Sequence[DecodedChunk]) -> Any:
    """Return the next momentum, with 0 for each element that was sent if the feedback masks; in place."""
    if host.is_masked(job):
        for part in sent:
            feedback.clear_at(device, momentum[part.base : part.base + part.d], part.indices)
    return momentum


def decay_residual(device: Device, job: TensorJob) -> Any:
    """Return the residual times its decay, or None if there is none."""
    residual, rule = job.residual, job.feedback
    if residual is None or not isinstance(rule, ErrorFeedback) or rule.decay == 1:
        return residual
    decayed = device.empty(residual.size, residual.dtype)
    feedback.filter_residual(device, residual, None, (rule.decay, 0), decayed)
    return decayed
