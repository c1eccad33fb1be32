"""Selection from sums while their terms are added: from each of many tensors, or from one alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array, as_flat
from wirecodec.cpu.fast import MIN_TENSORS
from wirecodec.cpu.fast.columns import ArrayColumns
from wirecodec.cpu.fast.group import select_groups
from wirecodec.cpu.fast.selected import Selected, group_tensors
from wirecodec.cpu.fast.terms import TermColumns, mask_momenta, select_joint
from wirecodec.kernels.term_forms import SUM
from wirecodec.select.base import is_zero
from wirecodec.settings.feedback import Feedback
from wirecodec.settings.scheme import Scheme
from wirecodec.step import StepInput

MIN_FUSED_SIZE = 2**16
"""Elements below which momentum stays in the cache, so that one tensor alone is added first."""


def select_sums(
    arrays: Sequence[Any], columns: ArrayColumns, wanted: StepInput, factor: float
) -> list[Selected]:
    """Add the terms and select, for the tensors whose selector can do both at once.

    Args:
        arrays, columns: of the gradients, from ``describe_tensors``.
        wanted: the step.
        factor: of clipping.
    """
    free = np.ones(len(arrays), np.bool_)
    if wanted.hold_zeros:
        free = ~np.fromiter(map(_is_held, arrays), np.bool_, len(arrays))
    groups: list[Selected] = []
    if wanted.jobs.groups:
        groups = select_groups(TermColumns(columns, wanted, free, factor))
        free &= ~np.fromiter(map(wanted.jobs.groups.__contains__, wanted.jobs), np.bool_, len(arrays))
    terms = TermColumns(columns, wanted, free, factor)
    kinds = np.where(terms.numbers >= 0, columns.kinds, -1)
    batches = []
    for scheme, _, candidates in group_tensors(list(wanted.jobs.schemes.values()), kinds, 1):
        for rule, keys in terms.split(candidates):
            left = keys
            if keys.size >= MIN_TENSORS:
                selected = _select_each(terms, scheme, rule, keys)
                if selected is not None:
                    batches.append(selected)
                    left = np.setdiff1d(keys, selected.keys, assume_unique=True)
            for key in left.tolist():
                alone = _select_alone(terms, scheme, rule, key)
                if alone is not None:
                    batches.append(alone)
    return batches + groups


def _is_held(array: Any) -> bool:
    """Tell whether a tensor may be held: it is zero, or not an array."""
    return not isinstance(array, np.ndarray) or is_zero(as_flat(array).data)


def _select_each(terms: TermColumns, scheme: Scheme, rule: Feedback, keys: Array) -> Selected | None:
    """Select from each of many tensors of one type and feedback; the selector may leave some out."""
    table, rests, momenta = terms.allocate(rule, keys)
    thresholds = terms.wanted.jobs.thresholds
    guesses = np.zeros(keys.size, np.uint64) if thresholds is None else thresholds[keys]
    selection = scheme.select.select_each(table, guesses)
    if thresholds is not None:
        thresholds[keys] = guesses
    if selection is None:
        return None
    members = selection.members
    selected = Selected.each(scheme, keys, table.sizes, selection)
    table = replace(table, addresses=table.addresses[members], sizes=table.sizes[members])
    momenta = [momenta[member] for member in members.tolist()] if momenta else []
    mask_momenta(rule, table, momenta, selected)
    rests = [rests[member] for member in members.tolist()]
    return replace(selected, rests=rests, momenta=momenta)


def _select_alone(terms: TermColumns, scheme: Scheme, rule: Feedback, key: int) -> Selected | None:
    """Select from one tensor; return None if adding first is no slower."""
    size = int(terms.gradients.sizes[key])
    if not scheme.select.takes_joint(size) or (size < MIN_FUSED_SIZE and terms.form_of(rule) != SUM):
        return None
    return select_joint(terms, scheme, rule, np.array([key], np.int64))
