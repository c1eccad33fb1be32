"""Sums of many tensors: selection while their terms are added, and completion to the next residuals.

A selector adds and selects at once, from each of many tensors or from several as one vector (``select_each``
and ``select_joint`` of ``Selector``). The plain twins are ``cpu.group``, which adds first, and
``cpu.residual``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.cpu.fast.terms import MIN_SELECTED_PER_THREAD, TermColumns, group_tensors
from wirecodec.cpu.forms import MIN_TENSORS
from wirecodec.cpu.selected import Selected
from wirecodec.kernels import term_forms as forms
from wirecodec.select.base import Selection, Selector
from wirecodec.select.term_table import TermTable
from wirecodec.settings.feedback import Feedback, MomentumCorrection
from wirecodec.settings.scheme import Scheme

MIN_FUSED_SIZE = 2**16
"""Elements below which momentum stays in the cache, so that one tensor alone is added first."""


def select_tensors(terms: TermColumns) -> list[Selected]:
    """Add the terms and select from each tensor by itself, for those whose selector can do both at once."""
    kinds = np.where((terms.rule_numbers >= 0) & ~terms.grouped, terms.gradients.kinds, -1)
    batches = []
    for scheme, _, candidates in group_tensors(list(terms.wanted.jobs.schemes.values()), kinds, 1):
        for rule, keys in terms.split(candidates):
            left = keys
            if keys.size >= MIN_TENSORS:
                selected = _select_each(terms, scheme, rule, keys)
                if selected is not None:
                    batches.append(selected)
                    left = keys[:0]
                    if selected.keys.size < keys.size:
                        left = np.setdiff1d(keys, selected.keys, assume_unique=True)
            for key in left.tolist():
                alone = _select_alone(terms, scheme, rule, key)
                if alone is not None:
                    batches.append(alone)
    return batches


def _select_each(terms: TermColumns, scheme: Scheme, rule: Feedback, keys: Array) -> Selected | None:
    """Select from each of many tensors of one type and feedback; the selector may leave some out."""
    table, sums, momenta = terms.allocate(rule, keys)
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
    if momenta:
        momenta = [momenta[member] for member in members.tolist()]
        mask_momenta(rule, table, momenta, selected)
    sums = [sums[member] for member in members.tolist()]
    return replace(selected, sums=sums, momenta=momenta)


def _select_alone(terms: TermColumns, scheme: Scheme, rule: Feedback, key: int) -> Selected | None:
    """Select from one tensor; return None if adding first is no slower."""
    size = int(terms.gradients.sizes[key])
    if not scheme.select.takes_joint(size) or (size < MIN_FUSED_SIZE and terms.form_of(rule) != forms.SUM):
        return None
    return select_joint(terms, scheme, rule, np.array([key], np.int64))


def select_joint(terms: TermColumns, scheme: Scheme, rule: Feedback, keys: Array) -> Selected | None:
    """Select from tensors as from one vector; return None if a sum is not finite."""
    table, sums, momenta = terms.allocate(rule, keys)
    selection = scheme.select.select_joint(table)
    if selection is None or selection.indices is None or selection.values is None:
        return None
    indices, starts = selection.indices, table.starts
    cuts = np.searchsorted(indices, starts.astype(indices.dtype))
    columns = starts[:-1], cuts, indices, selection.values
    selected = Selected(scheme, keys, table.sizes, *columns, joint=True, sums=sums, cleared=True)
    if momenta:
        mask_momenta(rule, table, momenta, selected)
    return replace(selected, momenta=momenta)


def select_sum(selector: Selector | None, gradient: Array, residual: Array, out: Array) -> Selection | None:
    """Add one residual and select in one pass; return None, with any contents of ``out``, if it cannot.

    Args:
        selector: selects, or None.
        gradient, residual: (n,) of one type.
        out: (n,) aligned to 64 bytes; it receives the sum, with +0 at the selected elements.
    """
    if selector is None or not selector.takes_joint(gradient.size):
        return None
    if gradient.dtype not in (np.float32, np.float64):
        return None
    addresses = np.zeros((1, 5), np.int64)
    addresses[0, [forms.GRADIENT, forms.RESIDUAL, forms.TOTAL]] = addresses_of([gradient, residual, out])
    table = TermTable(addresses, np.array([out.size]), np.ones(3), forms.SUM, gradient.dtype)
    return selector.select_joint(table)


def mask_momenta(rule: Feedback, table: TermTable, momenta: Sequence[Array], selected: Selected) -> None:
    """Set the next momenta to 0 at the selected elements, if the feedback masks them."""
    if not (isinstance(rule, MomentumCorrection) and rule.masking):
        return
    if selected.indices is None:
        for momentum in momenta:
            momentum[:] = 0
        return
    from wirecodec.kernels.cpu.select import feedback
    from wirecodec.kernels.cpu.threads import run_parallel

    n, addresses = table.sizes.size, np.ascontiguousarray(table.addresses[:, forms.AFTER])
    given = selected.indices, selected.cuts, selected.starts, addresses, table.sizes
    like = np.empty(0, table.dtype)
    least = max(1, MIN_SELECTED_PER_THREAD * n // max(1, selected.indices.size))
    run_parallel(partial(feedback.clear_at, *given, like), n, least)


def complete(selected: Selected, received: Array) -> None:
    """Subtract what receivers decode from the sums of tensors, in place.

    The bits are those of ``AccumulatedGradient.remainder`` with beta 1, for finite sums.

    Args:
        selected: the tensors; their sums become the next residuals.
        received: (n,) i64, addresses of the values that receivers decode at the selected elements.
    """
    if selected.indices is None:
        _subtract_all(selected, received)
        return
    from wirecodec.kernels.cpu.select import feedback
    from wirecodec.kernels.cpu.threads import least_units, run_parallel

    values = read_only(selected.values if selected.kept is None else selected.kept)
    indices = read_only(selected.indices.view(f"u{selected.indices.itemsize}"))
    cuts, starts, sizes = selected.cuts, selected.starts, selected.sizes
    sums = addresses_of(selected.sums)
    if sizes.size == 1:  # threads divide its elements
        parts = max(1, values.size // MIN_SELECTED_PER_THREAD)
        cuts = np.linspace(0, values.size, parts + 1).astype(np.int64)
        received = received[0] + cuts[:-1] * values.itemsize
        starts, sizes, sums = (np.repeat(x, parts) for x in (starts, sizes, sums))
    places, ends, like = sums - starts * values.itemsize, starts + sizes, np.empty(0, values.dtype)
    given = values, received, indices, cuts, places, ends, selected.cleared, like
    least = least_units(MIN_SELECTED_PER_THREAD, sizes.size, values.size)
    run_parallel(partial(feedback.store_differences, *given), sizes.size, least)


def _subtract_all(selected: Selected, received: Array) -> None:
    """Subtract the values of all elements."""
    with np.errstate(over="ignore"):
        for rest, address in zip(selected.sums, received.tolist(), strict=True):
            sent: Array = np.ctypeslib.as_array((ctypes.c_uint8 * rest.nbytes).from_address(address))
            np.subtract(rest, sent.view(rest.dtype), out=rest)
            rest[~np.isfinite(rest)] = 0
