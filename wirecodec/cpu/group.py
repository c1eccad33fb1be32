"""Selection from the sums of a step: of one tensor alone, or of several as of one vector.

gradient -> clipping, momentum, decay -> + residual -> choose -> Support
            accumulate                   select_alone, select_as_one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array, aligned, read_only, reuse, span
from wirecodec.cpu import forms
from wirecodec.cpu.costs import group_bytes
from wirecodec.cpu.fuse import at_member, split_support
from wirecodec.cpu.momentum import Addend, add_momentum, decay_residual
from wirecodec.cpu.residual import AccumulatedGradient
from wirecodec.cpu.select import choose
from wirecodec.cpu.weights import split_budget
from wirecodec.errors import EncodeError
from wirecodec.jobs import TensorJob
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support
from wirecodec.tensors import Flat
from wirecodec.validation import explain_residual

_PLAIN = ErrorFeedback()


@dataclass(frozen=True, eq=False)
class Member:
    """Tensor of a step, before its residual is added.

    Attributes:
        name: the tensor's, or None if the caller knows it.
        flat: (size,) addend of its residual, in the gradient's type.
        addend: the same before it is rounded to that type.
        job: settings and state; the feedback is the residual's rule, and the residual has decayed.
    """

    name: str | None
    flat: Flat
    addend: Addend
    job: TensorJob

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.flat.data.size)

    @property
    def sum_dtype(self) -> np.dtype[Any]:
        """Type of addend + residual, which all tensors of a group share."""
        residual = self.job.residual
        types = [self.addend.data.dtype, np.dtype(np.float32)] + (
            [] if residual is None else [residual.dtype]
        )
        return np.result_type(*types)

    def require_size(self) -> None:
        """Raise EncodeError if the residual has another size."""
        residual = self.job.residual
        if residual is not None and residual.size != self.size:
            raise EncodeError(explain_residual(self.size, residual.size), tensor=self.name)

    def add(self, out: Array | None) -> AccumulatedGradient | None:
        """Add the residual, in ``out`` if there is one; return None if no residual is kept."""
        rule, residual, dtype = self.job.feedback, self.job.residual, self.flat.data.dtype
        if rule is None:
            return None
        assert isinstance(rule, ErrorFeedback)
        return AccumulatedGradient.of(rule, self.addend.data, residual, out, dtype)


@dataclass(frozen=True, eq=False)
class SelectedTensor:
    """Selected elements of one tensor, and the sum they are from.

    Attributes:
        scheme: the tensor's; that of a held tensor, or of a part of a budget, is not the one it was given.
        support: the elements to send.
        selector: the selector's next state, or None; the first tensor of a group keeps the group's.
        addend: addend of the residual in this step.
        total: addend + residual; None if no residual is kept.
    """

    scheme: Scheme
    support: Support
    selector: Array | None
    addend: Addend
    total: AccumulatedGradient | None


def accumulate(name: str | None, flat: Flat, job: TensorJob, factor: float) -> Member:
    """Apply clipping, momentum and decay. Raises EncodeError, which names the tensor.

    Args:
        name: the tensor's.
        flat: the gradient.
        job: its settings and state.
        factor: of clipping.
    """
    rule = job.feedback
    if factor == 1 and (rule is None or rule == _PLAIN):
        return Member(name, flat, Addend(flat.data), job)
    try:
        addend = add_momentum(job, flat.data, factor)
    except EncodeError as error:
        raise error.of(name) from None
    data, dtype = addend.data, flat.data.dtype
    left = replace(job, feedback=job.residual_rule(exact=data.dtype == dtype), residual=decay_residual(job))
    if data.dtype != dtype:
        data = AccumulatedGradient.of(_PLAIN, data, None, sent_dtype=dtype).sendable()
    return Member(name, Flat(read_only(data), flat.shape), addend, left)


def select_alone(member: Member) -> SelectedTensor:
    """Add a tensor's residual, select, and gather the values. Raises EncodeError, which names the tensor."""
    job, flat, out = member.job, member.flat, None
    member.require_size()
    if job.feedback is not None and job.residual is not None:
        assert isinstance(job.feedback, ErrorFeedback)
        dtype = job.feedback.sum_dtype(member.addend.data.dtype, job.residual.dtype)
        out = reuse(job.spare, member.size, dtype)
        if (selected := _select_rounded(member, out)) is not None:
            return selected
    total = member.add(out)
    if total is not None and job.residual is not None:
        flat = Flat(read_only(total.sendable()), flat.shape)
    options: dict[str, Any] = {
        "gradient": member.flat.data,
        "state": job.state,
        "seed": job.seed,
        "header": job.header,
    }
    try:
        support, selector = choose(flat, job.scheme, **options)
    except EncodeError as error:
        raise error.of(member.name) from None
    return SelectedTensor(job.scheme, support, selector, member.addend, total)


def _select_rounded(member: Member, out: Array) -> SelectedTensor | None:
    """Select while a float32 residual is added to a 16-bit gradient; return None if that cannot be done."""
    job, gradient = member.job, member.addend.data
    assert isinstance(job.feedback, ErrorFeedback)
    assert job.residual is not None
    selection = forms.current().select_rounded(job.scheme, gradient, job.residual, out)
    if selection is None or selection.values is None:
        return None
    total = AccumulatedGradient(job.feedback, gradient, job.residual, out, True, gradient.dtype)
    support = Support(
        selection.indices, selection.values, member.size, member.flat.shape, total.sendable, finite=True
    )
    return SelectedTensor(job.scheme, support, None, member.addend, total)


@dataclass(frozen=True, eq=False)
class Group:
    """Sums of several tensors in one array.

    Attributes:
        members: the tensors.
        x: (n,) addends + residuals, in the type of the gradients.
        totals: the tensors' sums, within one array; None if no residual is kept.
    """

    members: Sequence[Member]
    x: Array
    totals: Sequence[AccumulatedGradient | None]

    @property
    def header(self) -> int:
        """Bytes of the container's header that count for the group."""
        return sum(member.job.header for member in self.members) + group_bytes(len(self.members))

    @property
    def sizes(self) -> list[int]:
        """Elements of each tensor."""
        return [member.size for member in self.members]


def select_as_one(members: Sequence[Member]) -> list[SelectedTensor]:
    """Select from tensors of one scheme and element type as from one vector.

    Tensors whose sums have another type, or whose errors have another weight, are a vector of their own.

    Raises EncodeError, which names the tensor.
    """
    kinds: dict[np.dtype[Any], dict[float, list[Member]]] = {}
    for member in members:
        kinds.setdefault(member.sum_dtype, {}).setdefault(member.job.weight, []).append(member)
    selected: dict[Member, SelectedTensor] = {}
    for parts in kinds.values():
        groups = [_add(same) for same in parts.values()]
        schemes = [members[0].job.scheme]
        if len(groups) > 1:
            schemes = split_budget(groups, list(parts), schemes[0])
        for group, scheme in zip(groups, schemes, strict=True):
            tensors = _select(group, scheme)
            selected |= zip(group.members, tensors, strict=True)
    return [selected[member] for member in members]


def _add(members: Sequence[Member]) -> Group:
    """Write the sums of tensors with one element type and one type of sums into one array."""
    for member in members:
        member.require_size()
    first, cuts = members[0], np.cumsum([0] + [member.size for member in members]).tolist()
    x = _allocate(members, cuts[-1], first.sum_dtype)
    totals = []
    for member, a, b in zip(members, cuts, cuts[1:], strict=False):
        if member.job.residual is None:
            x[a:b] = member.addend.data
            total = member.add(None)
            totals.append(None if total is None else replace(total, x=x[a:b]))
        else:
            totals.append(member.add(x[a:b]))
    dtype = first.flat.data.dtype
    sendable = AccumulatedGradient(ErrorFeedback(), x, None, x, sent_dtype=dtype).sendable()
    return Group(members, read_only(sendable), totals)


def _select(group: Group, scheme: Scheme) -> list[SelectedTensor]:
    """Select from all tensors of a group as from one."""
    members, job = group.members, group.members[0].job
    gradient = None
    if scheme.select.reads_gradient:
        gradient = np.concatenate([member.flat.data for member in members])
    options: dict[str, Any] = {
        "gradient": gradient,
        "state": job.state,
        "seed": job.seed,
        "header": group.header,
    }
    try:
        support, state = choose(Flat(group.x, (group.x.size,)), scheme, **options)
    except EncodeError as error:
        raise at_member(error, [member.name for member in members], group.sizes) from None
    parts = split_support(support, group.sizes, [member.flat.shape for member in members])
    rows = enumerate(zip(members, parts, group.totals, strict=True))
    return [
        SelectedTensor(scheme, part, None if i else state, member.addend, total)
        for i, (member, part, total) in rows
    ]


def _allocate(members: Sequence[Member], size: int, dtype: np.dtype[Any]) -> Array:
    """Return memory for the sums: that of spare arrays, if they follow each other in one array."""
    spares = [member.job.spare for member in members]
    head = spares[0]
    if head is None or head.base is None:
        return aligned(size, dtype)
    address = head.ctypes.data
    for member, spare in zip(members, spares, strict=True):
        if spare is None or spare.base is not head.base or spare.size != member.size:
            return aligned(size, dtype)
        if spare.dtype != dtype or spare.ctypes.data != address:
            return aligned(size, dtype)
        address += spare.nbytes
    vector = span(head, size)
    return aligned(size, dtype) if vector is None else vector
