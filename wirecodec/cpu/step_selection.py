"""Selection from all tensors of a step on the host: in batches, in groups, and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Flat, as_flat
from wirecodec.cpu.batch.step import SumBatch, select_sums
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.encode import find_others
from wirecodec.cpu.group import GroupSelection, select_groups
from wirecodec.cpu.momentum import Addend, clip_factor, sum_squares
from wirecodec.cpu.select import dense
from wirecodec.cpu.tensor_step import (
    SelectedTensor,
    accumulate,
    residual_buffer,
    select_alone,
    select_as_one,
    select_in_terms,
)
from wirecodec.cpu.terms import TermBatch, TermColumns, select_term_batches
from wirecodec.errors import EncodeError
from wirecodec.select.base import is_zero
from wirecodec.settings.feedback import ErrorFeedback
from wirecodec.step import StepInput, TensorJob

_PLAIN = ErrorFeedback()


@dataclass(frozen=True, eq=False)
class StepSelection:
    """Selected elements of all tensors of a step; each tensor is in one of the parts.

    Attributes:
        sums: tensors whose gradient and residual were added as they are.
        terms: tensors with momentum, decay or clipping.
        groups: tensors that were selected as one vector.
        tensors: {key: tensor selected by itself}, ascending.
    """

    sums: Sequence[SumBatch]
    terms: Sequence[TermBatch]
    groups: Sequence[GroupSelection]
    tensors: Mapping[int, SelectedTensor]

    @property
    def batches(self) -> list[SumBatch]:
        """All batches."""
        return [*self.sums, *(batch.sums for batch in self.terms)]

    def group_residuals(self) -> dict[int, Array]:
        """Return {key: residual} of the groups."""
        return {
            key: rest
            for group in self.groups
            for key, rest in zip(group.keys.tolist(), group.rests, strict=True)
        }

    def selectors(self) -> dict[int, Any]:
        """Return {key: the selector's next state} of the tensors that keep one."""
        found = {key: each.selector for key, each in self.tensors.items() if each.selector is not None}
        for group in self.groups:
            if group.selector is not None:
                found[int(group.keys[0])] = group.selector
        return found

    def momenta(self) -> dict[int, Array]:
        """Return {key: next momentum} of the batches and groups."""
        found: dict[int, Array] = {}
        for batch in self.terms:
            found |= batch.momenta
        for group in self.groups:
            found |= zip(group.keys.tolist(), group.momenta, strict=False)
        return found


def select_step(
    arrays: Sequence[Any], shapes: Sequence[Any], columns: ArrayColumns, wanted: StepInput
) -> StepSelection:
    """Add residuals and select from all tensors.

    Args:
        arrays, shapes, columns: of the gradients, from ``describe_tensors``.
        wanted: the step.

    Raises EncodeError, which names the tensor.
    """
    names, free = list(wanted.jobs), ~_find_zeros(arrays, wanted)
    plain = _find_plain(wanted) & free
    sums = _select_plain(columns, plain, wanted)
    for batch in sums:
        free[batch.selected.keys] = False
    flats: dict[int, Flat] = {}
    if wanted.clip is not None:
        for key, name in enumerate(names):
            flats[key] = _flatten(arrays[key], shapes[key], wanted.jobs.schemes[name], name)
    gradients = [flat.data for flat in flats.values()]
    factor = clip_factor(map(sum_squares, gradients), wanted.clip, lambda: gradients)
    moving = TermColumns(columns, wanted, free & ~plain, factor)
    groups = select_groups(moving)
    terms = select_term_batches(TermColumns(columns, wanted, moving.free & ~_find_grouped(wanted), factor))
    taken = [batch.selected for batch in sums] + [batch.sums.selected for batch in terms]
    rest = set(find_others(len(names), taken)).difference(*(group.keys.tolist() for group in groups))
    for key in sorted(rest - flats.keys()):
        flats[key] = _flatten(arrays[key], shapes[key], wanted.jobs.schemes[names[key]], names[key])
    others = {key: flats[key] for key in sorted(rest)}
    return StepSelection(sums, terms, groups, _select_others(names, others, factor, wanted))


def _flatten(array: Any, shape: Any, scheme: Any, name: str) -> Flat:
    """Convert a gradient to a flat array. Raises EncodeError, which names it."""
    try:
        flat = dense(array, scheme)
    except EncodeError as error:
        raise error.of(name) from None
    return Flat(flat.data, shape) if isinstance(array, np.ndarray) else flat


def _find_zeros(arrays: Sequence[Any], wanted: StepInput) -> Array:
    """Tell for each tensor whether it may be held: its gradient is zero, or not an array; (n,) bool."""
    if not wanted.hold_zeros:
        return np.zeros(len(arrays), np.bool_)
    return np.array([not isinstance(x, np.ndarray) or is_zero(as_flat(x).data) for x in arrays], np.bool_)


def _find_plain(wanted: StepInput) -> Array:
    """Tell for each tensor whether its gradient and its residual are added as they are, (n,) bool."""
    if wanted.clip is not None:
        return np.zeros(len(wanted.jobs), np.bool_)
    rules = [*map(wanted.jobs.rules.get, wanted.jobs)]
    alike = {number: rule == _PLAIN for number, rule in dict(zip(map(id, rules), rules, strict=True)).items()}
    plain = np.array([*map(alike.__getitem__, map(id, rules))], np.bool_)
    return plain & ~_find_grouped(wanted)


def _find_grouped(wanted: StepInput) -> Array:
    """Tell for each tensor whether it is selected from as a part of a group, (n,) bool."""
    groups, n = wanted.jobs.groups, len(wanted.jobs)
    if not groups:
        return np.zeros(n, np.bool_)
    return np.fromiter(map(groups.__contains__, wanted.jobs), np.bool_, n)


def _select_plain(columns: ArrayColumns, plain: Array, wanted: StepInput) -> list[SumBatch]:
    """Add residuals and select, for the tensors that a batch can take without other arithmetic."""
    jobs = wanted.jobs
    residuals, spares = [*map(jobs.residuals.get, jobs)], [*map(jobs.spares.get, jobs)]
    for key in np.flatnonzero(~plain).tolist():
        residuals[key] = None
    thresholds = np.zeros(len(jobs), np.uint64) if jobs.thresholds is None else jobs.thresholds
    return select_sums(columns, residuals, spares, list(jobs.schemes.values()), thresholds)


def _select_others(
    names: Sequence[str], flats: Mapping[int, Flat], factor: float, wanted: StepInput
) -> dict[int, SelectedTensor]:
    """Select from the tensors of no batch; return the selected elements by key, ascending.

    Args:
        names: of all tensors, by key.
        flats: gradients by key.
        factor: of clipping.
        wanted: the step.

    Raises EncodeError, which names the tensor.
    """
    members: dict[Any, list[tuple[int, Flat, TensorJob]]] = {}
    selected: dict[int, SelectedTensor] = {}
    waiting: list[tuple[int, Flat, TensorJob, Addend]] = []
    for key, flat in flats.items():
        name = names[key]
        job = wanted.jobs[name]
        held = wanted.hold_zeros and is_zero(flat.data)
        if name in wanted.jobs.groups and not held:
            members.setdefault((wanted.jobs.groups[name], flat.data.dtype), []).append((key, flat, job))
            continue
        job = job.hold() if held else job
        try:
            found = select_in_terms(flat, job, factor)
            if found is not None:
                selected[key] = found
                continue
            addend, changed, left = accumulate(flat, job, factor)
            waiting.append((key, changed, left, addend))
        except EncodeError as error:
            raise error.of(name) from None
    for given in members.values():
        listed = [(names[key], flat, job) for key, flat, job in given]
        chosen = select_as_one(listed, factor)
        selected |= {key: one for (key, _, _), one in zip(given, chosen, strict=True)}
    for key, flat, job, addend in waiting:
        try:
            keeps = job.feedback is not None and job.residual is not None
            buffer = residual_buffer(job, addend.data) if keeps else None
            selected[key] = select_alone(flat, job, addend, buffer)
        except EncodeError as error:
            raise error.of(names[key]) from None
    return dict(sorted(selected.items()))
