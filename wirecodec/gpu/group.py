"""Selection from a group of tensors on a GPU as from one vector (``wirecodec.cpu.group``).

The sums are concatenated on the device. If an element is not finite, or a type has no kernel for the sum, the
CPU's code selects from the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.cpu import group as host
from wirecodec.cpu.costs import group_bytes
from wirecodec.cpu.fuse import at_member, split_support
from wirecodec.errors import EncodeError
from wirecodec.gpu.arrays import concatenate, copy_to_host
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.residual import AccumulatedGradient
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import SIZE_LIMIT, choose
from wirecodec.gpu.step import SelectedTensor, add_terms
from wirecodec.gpu.support import DeviceSupport
from wirecodec.jobs import TensorJob
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.support import Support
from wirecodec.tensors import DeviceFlat, Flat
from wirecodec.validation import explain_residual

Given = tuple[str, DeviceFlat, TensorJob]


def select_group(device: Device, given: Sequence[Given], factor: float) -> list[SelectedTensor]:
    """Select from tensors of one dtype, given as (name, gradient, job), as from one vector.

    Args:
        device: of all arrays.
        given: the tensors, with one scheme.
        factor: of clipping.

    Raises EncodeError, which names the tensor.
    """
    for name, flat, job in given:
        if job.residual is not None and job.residual.size != flat.raw_bits.size:
            reason = explain_residual(flat.raw_bits.size, job.residual.size)
            raise EncodeError(reason, tensor=name)
    try:
        members = [_add(device, *tensor, factor) for tensor in given]
    except HostFallback:
        return _select_on_host(device, given, factor)
    kinds: dict[np.dtype[Any], list[int]] = {}
    for at, (one, _, _) in enumerate(members):
        kinds.setdefault(np.dtype(one.x.dtype), []).append(at)
    by_place: dict[int, SelectedTensor] = {}
    for places in kinds.values():
        selected = _select(device, [given[at] for at in places], [members[at] for at in places])
        by_place |= dict(zip(places, selected, strict=True))
    return [by_place[at] for at in range(len(given))]


def _add(
    device: Device, name: str, flat: DeviceFlat, wanted: TensorJob, factor: float
) -> tuple[AccumulatedGradient, Any, DeviceFlat]:
    """Apply clipping and momentum to one tensor, and add its residual.

    Returns the sum, the addend of the residual or None if it is the gradient, and this addend in the
    gradient's type. Raises HostFallback, or EncodeError.
    """
    try:
        addend, seen, job = add_terms(device, flat, wanted, factor)
        rule = job.feedback if job.feedback is not None else ErrorFeedback()
        assert isinstance(rule, ErrorFeedback)
        source = flat if addend is None else addend.flat
        total = AccumulatedGradient.of(device, rule, source, job.residual, None, flat.dtype)
    except EncodeError as error:
        raise error.of(name) from None
    return total, addend, seen


def _select(
    device: Device, given: Sequence[Given], members: Sequence[tuple[AccumulatedGradient, Any, DeviceFlat]]
) -> list[SelectedTensor]:
    """Select from sums of one type."""
    first = given[0][2]
    names, sizes = [name for name, _, _ in given], [flat.raw_bits.size for _, flat, _ in given]
    starts = np.cumsum([0, *sizes])
    dtype, shape = given[0][1].dtype, (int(starts[-1]),)
    if starts[-1] > SIZE_LIMIT:
        raise EncodeError(f"a group of {starts[-1]} elements; a GPU takes at most 2^31", tensor=names[0])
    sums = [total.sendable() for total, _, _ in members]
    flat = DeviceFlat(concatenate(device, [sendable.raw_bits for sendable in sums]), dtype, shape)
    gradient = DeviceFlat(concatenate(device, [seen.raw_bits for _, _, seen in members]), dtype, shape)
    header = sum(job.header for _, _, job in given) + group_bytes(len(given))
    context = Context(first.seed, gradient, first.state, first.last, header)
    try:
        support, state = choose(device, flat, first.scheme, context)
    except EncodeError as error:
        raise at_member(error, names, sizes) from None
    shapes = [own.shape for _, own, _ in given]
    parts: list[Support | DeviceSupport]
    if isinstance(support, Support):
        parts = [*split_support(support, sizes, shapes)]
    else:
        flats = [replace(sendable, shape=own) for sendable, own in zip(sums, shapes, strict=True)]
        parts = [*_split(device, support, flats, starts)]
    rows = zip(given, members, parts, strict=True)
    return [
        SelectedTensor(job, part, None if at else state, addend, total if _keeps(job, own, addend) else None)
        for at, ((_, own, job), (total, addend, _), part) in enumerate(rows)
    ]


def _keeps(job: TensorJob, flat: DeviceFlat, addend: Any) -> bool:
    """Tell whether a tensor keeps a residual."""
    exact = addend is None or addend.flat.dtype == flat.dtype
    return job.residual_rule(exact=exact) is not None


def _split(
    device: Device, support: DeviceSupport, flats: Sequence[DeviceFlat], starts: Any
) -> list[DeviceSupport]:
    """Split what was selected of a group by tensors."""
    edges = starts.astype(np.uint32)
    cuts = starts
    if support.indices is not None:
        cuts = device.get(bits.count_below(device, support.indices, edges))
    parts = []
    for (a, b), base, flat in zip(pairwise(cuts.tolist()), edges.tolist(), flats, strict=False):
        indices = None
        if support.indices is not None and b - a < flat.raw_bits.size:
            indices = bits.subtract_base(device, support.indices[a:b], base, np.uint32)
        parts.append(replace(support, indices=indices, raw_bits=support.raw_bits[a:b], flat=flat, state=None))
    return parts


def _select_on_host(device: Device, given: Sequence[Given], factor: float) -> list[SelectedTensor]:
    """Do the same by the CPU's code."""
    members = []
    for name, flat, job in given:
        residual, momentum = (None if x is None else device.get(x) for x in (job.residual, job.momentum))
        gradient = Flat(copy_to_host(device, flat).data, flat.shape)
        moved = replace(job, residual=residual, momentum=momentum)
        members.append(host.accumulate(name, gradient, moved, factor))
    return [
        SelectedTensor(job, one.support, one.selector, one.addend, one.total)
        for (_, _, job), one in zip(given, host.select_as_one(members), strict=True)
    ]
