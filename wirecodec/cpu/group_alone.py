"""Selection from a group of tensors as one vector: their sums are written into one array, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wirecodec.arrays import Array, Flat, aligned, read_only
from wirecodec.cpu.costs import group_bytes
from wirecodec.cpu.momentum import Addend
from wirecodec.cpu.residual import AccumulatedGradient
from wirecodec.cpu.select import choose
from wirecodec.errors import EncodeError
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.select.topk import TopK
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import index_dtype
from wirecodec.step import TensorJob
from wirecodec.support import SharedEntries, Support

MIN_ELEMENTS_PER_THREAD = 2**17


@dataclass(frozen=True, eq=False)
class Member:
    """Tensor of a group.

    Attributes:
        name: the tensor's.
        flat: (size,) addend of its residual, in the gradient's type.
        addend: the same in the sum's type.
        job: settings and state; the feedback is the residual's rule, and the residual has decayed.
    """

    name: str
    flat: Flat
    addend: Addend
    job: TensorJob

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.flat.data.size)


@dataclass(frozen=True, eq=False)
class SelectedMember:
    """Selected elements of a tensor of a group.

    Attributes:
        support: the elements to send.
        selector: the selector's next state, which the first tensor of a group keeps; or None.
        total: addend + residual, within the group's array; None if no residual is kept.
    """

    support: Support
    selector: Any
    total: AccumulatedGradient | None


def sum_dtype(member: Member) -> np.dtype[Any]:
    """Return the type of a tensor's addend + residual, which all tensors of a group share."""
    residual = member.job.residual
    types = [member.addend.data.dtype, np.dtype(np.float32)] + ([] if residual is None else [residual.dtype])
    return np.result_type(*types)


@dataclass(frozen=True, eq=False)
class Group:
    """Sums of a group's tensors in one array.

    Attributes:
        members: the tensors.
        starts: (m + 1,) i64, the first element of each tensor, and the end.
        x: (n,) addends + residuals, in the type of the gradients.
        totals: the tensors' sums, within one array; None if no residual is kept.
    """

    members: Sequence[Member]
    starts: Array
    x: Array
    totals: list[AccumulatedGradient | None]

    @property
    def header(self) -> int:
        """Bytes of the container's header that count for the group."""
        return sum(member.job.header for member in self.members) + group_bytes(len(self.members))


def add_group(members: Sequence[Member]) -> Group:
    """Add the residuals of tensors with one scheme, one element type and one type of sums.

    Raises EncodeError, which names the tensor.
    """
    first = members[0]
    dtype, starts = first.flat.data.dtype, np.cumsum([0] + [member.size for member in members])
    for member in members:
        residual = member.job.residual
        if residual is not None and residual.size != member.size:
            raise EncodeError(
                f"the gradient has {member.size} elements; its residual has {residual.size}",
                tensor=member.name,
            )
    x = _allocate(members, int(starts[-1]), sum_dtype(first))
    cuts = list(zip(starts.tolist(), starts[1:].tolist(), strict=False))
    totals = [_add(member, x[a:b]) for member, (a, b) in zip(members, cuts, strict=True)]
    sendable = AccumulatedGradient(ErrorFeedback(), x, None, x, sent_dtype=dtype).sendable()
    return Group(members, starts, read_only(sendable), totals)


def select_group(group: Group, scheme: Scheme) -> list[SelectedMember]:
    """Select from all tensors of a group as from one.

    Raises EncodeError, which names the tensor.
    """
    members, starts, first = group.members, group.starts, group.members[0]
    gradient = None
    if isinstance(scheme.select, AdaComp):
        gradient = np.concatenate([member.flat.data for member in members])
    try:
        support, state = choose(
            Flat(group.x, (group.x.size,)),
            scheme,
            gradient=gradient,
            state=first.job.state,
            seed=first.job.seed,
            header=group.header,
        )
    except EncodeError as error:
        raise at_member(error, [member.name for member in members], starts) from None
    parts = split_support(support, [m.size for m in members], [m.flat.shape for m in members])
    finite = isinstance(scheme.select, TopK)  # it has raised an error otherwise
    return [
        SelectedMember(part, None if i else state, _known(total, finite=finite))
        for i, (part, total) in enumerate(zip(parts, group.totals, strict=True))
    ]


def _known(total: AccumulatedGradient | None, *, finite: bool) -> AccumulatedGradient | None:
    """Return a sum, marked as finite if that is known."""
    if total is None or not finite:
        return total
    return AccumulatedGradient(
        total.rule, total.gradient, total.residual, total.x, finite=True, sent_dtype=total.sent_dtype
    )


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
    return as_strided(head, (size,))


def _add(member: Member, out: Array) -> AccumulatedGradient | None:
    """Write a tensor's sum, and return it if a residual is kept."""
    rule, residual, data = member.job.feedback, member.job.residual, member.addend.data
    if residual is None:
        out[:] = data
    if rule is None:
        return None
    assert isinstance(rule, ErrorFeedback)
    dtype = member.flat.data.dtype
    if residual is None:
        return AccumulatedGradient(rule, data, None, out, sent_dtype=dtype)
    return AccumulatedGradient.of(rule, data, residual, out, dtype)


def split_support(support: Support, sizes: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> list[Support]:
    """Split what was selected of a group by tensors, with these sizes and shapes."""
    if len(sizes) == 1:
        return [replace(support, shape=shapes[0])]
    shared = None if support.entries is None else SharedEntries(support.entries, len(sizes))
    starts = np.cumsum([0, *sizes])
    indices, parts = support.indices, []
    edges = starts if indices is None else np.searchsorted(indices, starts)
    rows = zip(sizes, shapes, starts.tolist(), edges, edges[1:], strict=False)
    for size, shape, start, a, b in rows:
        values = support.values[a:b]
        if indices is None or b - a == size:
            parts.append(Support(None, values, size, shape, step=support.step, shared=shared))
            continue
        local = (indices[a:b] - indices.dtype.type(start)).astype(index_dtype(size), copy=False)
        source = partial(_gather, support, start)
        parts.append(Support(local, values, size, shape, source, step=support.step, shared=shared))
    return parts


def _gather(support: Support, start: int, where: Array) -> Array:
    """Gather the values of a tensor of a group at ascending element numbers."""
    return support.at(where.astype(np.int64) + start)


def at_member(error: EncodeError, names: Sequence[str], starts: Array) -> EncodeError:
    """Move the error of a group to the tensor that has its element, or to the first tensor."""
    if error.position is None:
        return EncodeError(error.reason, tensor=names[0])
    at = int(np.searchsorted(starts, error.position, side="right")) - 1
    return EncodeError(error.reason, tensor=names[at], position=error.position - int(starts[at]))
