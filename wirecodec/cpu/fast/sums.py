"""Selection from sums while their terms are added: from each of many tensors, or from one alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cpu.fast import MIN_TENSORS
from wirecodec.cpu.fast.selected import Selected, group_tensors
from wirecodec.cpu.fast.terms import TermColumns, mask_momenta, select_joint
from wirecodec.kernels.term_forms import SUM
from wirecodec.settings.feedback import Feedback
from wirecodec.settings.scheme import Scheme

MIN_FUSED_SIZE = 2**16
"""Elements below which momentum stays in the cache, so that one tensor alone is added first."""


def select_tensors(terms: TermColumns) -> list[Selected]:
    """Add the terms and select from each tensor by itself, for those whose selector can do both at once."""
    kinds = np.where((terms.numbers >= 0) & ~terms.grouped, terms.gradients.kinds, -1)
    batches = []
    for scheme, _, candidates in group_tensors(list(terms.wanted.jobs.schemes.values()), kinds, 1):
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
    return batches


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
