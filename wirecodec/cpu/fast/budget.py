"""Selection by ``budget`` from each of many tensors, whose sums are written by one kernel call.

The plain twin is ``cpu.group.select_alone``, which searches for one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.writer import CHUNK, TABLE
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.fast.budget_search import BudgetSearch
from wirecodec.cpu.fast.sums import mask_momenta
from wirecodec.cpu.fast.terms import (
    TermColumns,
    can_encode_together,
    can_select_together,
    group_tensors,
)
from wirecodec.cpu.forms import MIN_TENSORS
from wirecodec.cpu.selected import Selected
from wirecodec.kernels import term_forms as forms
from wirecodec.select.base import all_finite
from wirecodec.select.budget.selector import SMALL_BYTES, Budget, HardBudget
from wirecodec.settings.feedback import Feedback
from wirecodec.settings.scheme import Scheme

MAX_TOGETHER = 2**22
"""Elements of the tensors that are searched together, which bounds the memory for their candidates."""


def select_budgets(terms: TermColumns) -> list[Selected]:
    """Add the terms and select from each tensor by itself, for float32 tensors with a budget.

    The plain way takes those of which nothing or everything is selected, and very
    large selections.
    """
    jobs = terms.wanted.jobs
    schemes, columns = list(jobs.schemes.values()), terms.gradients
    taken = (terms.rule_numbers >= 0) & ~terms.grouped & (columns.sizes <= CHUNK)
    kinds = np.where(taken, columns.kinds, -1)
    batches = []
    for scheme, dtype, candidates in group_tensors(schemes, kinds, MIN_TENSORS, _takes_many):
        if dtype != np.float32:
            continue
        for rule, members in terms.split(candidates):
            for keys, budgets in _divide(schemes, members, columns.sizes, jobs.header):
                selected = _select(terms, scheme, rule, keys, budgets)
                batches += [] if selected is None else [selected]
    return batches


def select_within_budgets(
    columns: ArrayColumns, arrays: Sequence[Array], schemes: Sequence[Scheme], header: int
) -> list[Selected]:
    """Select from each float32 tensor by itself, without feedback; the plain way takes what is left out.

    Args:
        columns: the arrays' addresses, sizes and types, by key.
        arrays: by key.
        schemes: by key.
        header: bytes of the header that each tensor has to pay.
    """
    batches = []
    kinds = np.where((columns.sizes > 0) & (columns.sizes <= CHUNK), columns.kinds, -1)
    for scheme, dtype, keys in group_tensors(schemes, kinds, MIN_TENSORS, _takes_many):
        if dtype != np.float32:
            continue
        finite = np.fromiter((all_finite(arrays[key].reshape(-1)) for key in keys.tolist()), np.bool_)
        for own, budgets in _divide(schemes, keys[finite], columns.sizes, header):
            sizes = columns.sizes[own]
            found = BudgetSearch(columns.addresses[own], sizes, budgets, scheme).run()
            if found is not None:
                selected = Selected.each(scheme, own, sizes, found.selection)
                batches.append(replace(selected, steps=found.steps, value_sections=found.sections))
    return batches


def _divide(
    schemes: Sequence[Scheme], members: Array, sizes: Array, header: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the keys and the budgets, in bytes, of tensors that are searched together."""
    budgets = _list_budgets(schemes, members, sizes, header)
    keys, budgets = members[budgets > 0], budgets[budgets > 0]
    rounds = np.cumsum(sizes[keys]) // MAX_TOGETHER
    for number in np.unique(rounds):
        own = rounds == number
        if np.count_nonzero(own) >= MIN_TENSORS:
            yield keys[own], budgets[own]


def _takes_many(scheme: Scheme) -> bool:
    """Tell whether a scheme has a budget, and codecs that measure many tensors at a time."""
    exact = type(scheme.select) in (Budget, HardBudget) and can_encode_together(scheme)
    return exact and can_select_together(scheme)


def _list_budgets(schemes: Sequence[Scheme], keys: Array, sizes: Array, header: int) -> Array:
    """Return the bytes of the sections of each tensor, as ``select_within`` of its budget has them.

    They are 0 or less if a budget does not hold the header.
    """
    known: dict[tuple[int, int], int] = {}
    budgets = []
    for key, size in zip(keys.tolist(), sizes[keys].tolist(), strict=True):
        place = id(schemes[key]), size
        if place not in known:
            selector: Any = schemes[key].select
            overhead = header + TABLE.itemsize
            if isinstance(selector, HardBudget):
                nbytes = selector.allow(size, overhead)
            else:
                nbytes = selector.own_bytes(size)
                if nbytes <= overhead:
                    nbytes = overhead + max(nbytes, SMALL_BYTES)
            known[place] = nbytes - overhead
        budgets.append(known[place])
    return np.array(budgets, np.int64)


def _select(
    terms: TermColumns, scheme: Scheme, rule: Feedback, keys: Array, budgets: Array
) -> Selected | None:
    """Select from each of many float32 tensors of one feedback; the search may leave some out."""
    table, sums, momenta = terms.allocate(rule, keys)
    if not table.add():
        return None
    found = BudgetSearch(table.addresses[:, forms.TOTAL].copy(), table.sizes, budgets, scheme).run()
    if found is None:
        return None
    members = found.selection.members
    selected = Selected.each(scheme, keys, table.sizes, found.selection)
    selected = replace(selected, steps=found.steps, value_sections=found.sections)
    table = replace(table, addresses=table.addresses[members], sizes=table.sizes[members])
    momenta = [momenta[member] for member in members.tolist()] if momenta else []
    mask_momenta(rule, table, momenta, selected)
    return replace(selected, sums=[sums[member] for member in members.tolist()], momenta=momenta)
