"""Selection from one tensor, or from a group of them, in a Compressor's step on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from wirecodec.arrays import Array, Flat, aligned, read_only
from wirecodec.cpu.group_alone import Member, add_group, select_group, sum_dtype
from wirecodec.cpu.momentum import Addend, add_momentum, decay_residual, make_terms
from wirecodec.cpu.residual import AccumulatedGradient
from wirecodec.cpu.select import choose
from wirecodec.cpu.weights import split_budget
from wirecodec.errors import EncodeError
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.step import TensorJob
from wirecodec.support import Support

_PLAIN = ErrorFeedback()
MIN_FUSED_SIZE = 2**16
"""Elements below which momentum stays in the cache, so it is faster to select from tensors together."""


@dataclass(frozen=True, eq=False)
class SelectedTensor:
    """Selected elements of one tensor, and the sum they are from.

    Attributes:
        job: the tensor's settings and state.
        support: the elements to send.
        selector: the selector's next state, or None.
        addend: addend of the residual in this step.
        total: addend + residual; None if no residual is kept.
        rest: the sum with +0 at the selected elements, if the selector cleared them.
    """

    job: TensorJob
    support: Support
    selector: Array | None
    addend: Addend
    total: AccumulatedGradient | None
    rest: Array | None = None


def accumulate(flat: Flat, job: TensorJob, factor: float) -> tuple[Addend, Flat, TensorJob]:
    """Apply clipping, momentum and decay.

    Args:
        flat: the gradient.
        job: its settings and state.
        factor: of clipping.

    Returns the addend of the residual, the same in the gradient's type if that can hold it, and the remaining
    job. The feedback of that job is the residual's rule, and its residual has decayed.
    """
    rule = job.feedback
    if factor == 1 and (rule is None or rule == _PLAIN):
        return Addend(flat.data), flat, job
    addend = add_momentum(job, flat.data, factor)
    data = addend.data
    exact = data.dtype == flat.data.dtype
    left = replace(job, feedback=job.residual_rule(exact=exact), residual=decay_residual(job))
    if not exact:
        total = AccumulatedGradient.of(_PLAIN, data, None, sent_dtype=flat.data.dtype)
        data = total.sendable()
    return addend, Flat(read_only(data), flat.shape), left


def select_alone(flat: Flat, job: TensorJob, addend: Addend, buffer: Array | None) -> SelectedTensor:
    """Add a tensor's residual, select, and gather the values."""
    rule, residual, gradient = job.feedback, job.residual, flat.data
    total, seen = None, flat
    if rule is not None:
        selected = _select_in_sum(flat, job, addend, buffer)
        if selected is not None:
            return selected
        assert isinstance(rule, ErrorFeedback)
        total = AccumulatedGradient.of(rule, addend.data, residual, buffer, gradient.dtype)
        if residual is not None:
            seen = Flat(read_only(total.sendable()), flat.shape)
    found = choose(seen, job.scheme, gradient=gradient, state=job.state, seed=job.seed, header=job.header)
    return SelectedTensor(job, *found, addend, total)


def _select_in_sum(flat: Flat, job: TensorJob, addend: Addend, buffer: Array | None) -> SelectedTensor | None:
    """Add and select in one pass if the selector can; the remaining sum goes to ``buffer``."""
    scheme, residual, gradient = job.scheme, job.residual, flat.data
    select_sum = getattr(scheme.select, "select_sum", None)
    if select_sum is None or residual is None or buffer is None or job.feedback != _PLAIN:
        return None
    if scheme.transform is not None or scheme.index.lossy:
        return None
    if not gradient.dtype == residual.dtype == buffer.dtype:
        return None
    selection = select_sum(gradient, residual, buffer)
    if selection is None:
        return None
    support = Support(selection.indices, selection.values, gradient.size, flat.shape)
    return SelectedTensor(job, support, None, addend, None, rest=buffer)


def select_in_terms(flat: Flat, job: TensorJob, factor: float) -> SelectedTensor | None:
    """Apply clipping, momentum and decay, add and select in one pass, if the selector can and it pays."""
    scheme, residual, gradient = job.scheme, job.residual, flat.data
    select_terms: Any = getattr(scheme.select, "select_terms", None)
    if select_terms is None or residual is None or gradient.size < MIN_FUSED_SIZE:
        return None
    if scheme.transform is not None or scheme.index.lossy:
        return None
    rule = job.residual_rule(exact=True)
    terms = None if rule != _PLAIN else make_terms(job, gradient, factor)
    if terms is None:
        return None
    buffer = residual_buffer(replace(job, feedback=rule), gradient)
    selection = select_terms(terms, buffer)
    if selection is None:
        return None
    support = Support(selection.indices, selection.values, gradient.size, flat.shape)
    addend = Addend(gradient, terms.after if terms.after.size else None, finite=True)
    return SelectedTensor(job, support, None, addend, None, rest=buffer)


def select_as_one(given: Sequence[tuple[str, Flat, TensorJob]], factor: float) -> list[SelectedTensor]:
    """Select from tensors, given as (name, gradient, job), as from one. Raises EncodeError, naming one."""
    kinds: dict[Any, dict[float, list[Member]]] = {}
    done: dict[str, SelectedTensor] = {}
    for name, flat, job in given:
        try:
            addend, seen, left = accumulate(flat, job, factor)
        except EncodeError as error:
            raise error.of(name) from None
        member = Member(name, seen, addend, left)
        kinds.setdefault(sum_dtype(member), {}).setdefault(job.weight, []).append(member)
    for parts in kinds.values():
        groups = [add_group(members) for members in parts.values()]
        schemes = [given[0][2].scheme]
        if len(groups) > 1:
            schemes = split_budget(groups, list(parts), schemes[0])
        for group, scheme in zip(groups, schemes, strict=True):
            for member, each in zip(group.members, select_group(group, scheme), strict=True):
                job, addend = replace(member.job, scheme=scheme), member.addend
                done[member.name] = SelectedTensor(job, each.support, each.selector, addend, each.total)
    return [done[name] for name, _, _ in given]


def residual_buffer(job: TensorJob, gradient: Array) -> Array:
    """Return memory for a tensor's next residual: the spare array if it fits, else a new one."""
    spare, residual, size = job.spare, job.residual, gradient.size
    assert isinstance(job.feedback, ErrorFeedback)
    if residual.size != size:
        raise EncodeError(f"the gradient has {size} elements; its residual has {residual.size}")
    dtype = job.feedback.sum_dtype(gradient.dtype, residual.dtype)
    if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
        return aligned(size, dtype)
    return spare
