"""Selection from groups of tensors as from one vector each, whose sums are written by one kernel call.

A selector that selects while it adds gets the terms; any other one gets the vector of the sums. What is
selected keeps its positions in the group until it is encoded: a fused entry has the same ones. Its plain twin
is ``cpu.group``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, aligned, read_only, span
from wirecodec.cpu.costs import group_bytes
from wirecodec.cpu.fast.headers import describe
from wirecodec.cpu.fast.stream import take
from wirecodec.cpu.fast.sums import mask_momenta, select_joint
from wirecodec.cpu.fast.terms import TermColumns, can_select_together
from wirecodec.cpu.select import choose, is_own
from wirecodec.cpu.selected import Selected
from wirecodec.element_types import DTYPES
from wirecodec.errors import EncodeError
from wirecodec.select.base import all_finite
from wirecodec.select.budget.selector import Budget
from wirecodec.select.budget.source import OCTAVES, SweptSource, lower_guess
from wirecodec.select.term_table import TermTable
from wirecodec.settings.feedback import Feedback
from wirecodec.settings.scheme import Scheme
from wirecodec.tensors import Flat

MAX_SWEPT = 2**31
"""Elements of a group whose positions have 32 bits."""


@dataclass(frozen=True, eq=False)
class Group:
    """Tensors that are selected from as one vector.

    Attributes:
        scheme, rule: of all of them.
        keys: (n,) i64, ascending.
    """

    scheme: Scheme
    rule: Feedback
    keys: Array


def list_groups(terms: TermColumns) -> list[Group]:
    """List the groups whose tensors have one form of terms and one weight.

    The plain way takes the others, and raises the error of a group that cannot be selected from.
    """
    jobs = terms.wanted.jobs
    others = np.flatnonzero((terms.gradients.kinds < 0) & terms.grouped).tolist()  # sparse tensors
    plain = {jobs.groups[terms.names[key]] for key in others}
    members: dict[tuple[Any, int], list[int]] = {}
    for key in np.flatnonzero(terms.free & terms.grouped).tolist():
        group, kind = jobs.groups[terms.names[key]], int(terms.gradients.kinds[key])
        if group not in plain:
            members.setdefault((group, kind), []).append(key)
    groups = []
    for listed in members.values():
        keys = np.array(listed, np.int64)
        scheme = jobs.schemes[terms.names[listed[0]]]
        rules = list(terms.split(keys))
        weights = {jobs.weights.get(terms.names[key], 1.0) for key in listed}
        alike = len(weights) == 1 and len(rules) == 1 and rules[0][1].size == keys.size
        if alike and can_select_together(scheme):
            groups.append(Group(scheme, rules[0][0], keys))
    return groups


def select_group(terms: TermColumns, group: Group) -> Selected | None:
    """Write a group's sums into one vector, and select from it; return None if the plain way must do it."""
    scheme, rule, keys = group.scheme, group.rule, group.keys
    if scheme.select.takes_joint(int(terms.gradients.sizes[keys].sum())):
        selected = select_joint(terms, scheme, rule, keys)
        if selected is not None:
            return selected
    sizes, dtype = terms.gradients.sizes[keys], terms.dtype_of(keys)
    x = _join(terms.spares(keys), sizes, dtype)
    x = aligned(int(sizes.sum()), dtype) if x is None else x
    starts = np.cumsum(sizes) - sizes
    table, momenta = terms.table(rule, keys, x.ctypes.data + starts * dtype.itemsize)
    source, thresholds = None, terms.wanted.jobs.thresholds
    if isinstance(scheme.select, Budget) and thresholds is not None:
        source, thresholds[keys[0]] = _sweep(table, x, scheme.select.name, int(thresholds[keys[0]])), 0
    if source is None and not table.add():
        return None
    first = terms.wanted.jobs[terms.names[int(keys[0])]]
    header = keys.size * first.header + group_bytes(keys.size)
    try:
        flat = Flat(read_only(x), (x.size,))
        support, state = choose(
            flat, scheme, state=first.state, seed=first.seed, header=header, source=source
        )
    except EncodeError:
        return None
    if source is not None and thresholds is not None:
        thresholds[keys[0]] = source.next_guess()
    values = support.values
    indices, cuts, kept = support.indices, table.starts, None
    if indices is not None:
        values = values.copy() if np.may_share_memory(values, x) else values
        cuts = np.searchsorted(indices, table.starts.astype(indices.dtype))
        if source is None:  # values may have another magnitude
            kept = take(x, indices)
    selected = Selected(
        scheme,
        keys,
        sizes,
        starts,
        cuts,
        indices,
        values,
        joint=True,
        finite=is_own(scheme.select) or all_finite(read_only(values)),
        step=support.step,
        entries=support.entries,
        sums=[x[a : a + size] for a, size in zip(starts.tolist(), sizes.tolist(), strict=True)],
        kept=kept,
        cleared=kept is not None,
        momenta=momenta,
        state=state,
    )
    if momenta:
        mask_momenta(rule, table, momenta, selected)
    return selected


def _sweep(table: TermTable, x: Array, what: str, guess: int) -> SweptSource | None:
    """Write a group's sums into ``x``, and collect the largest; return None if one is not finite.

    Args:
        table: of the tensors.
        x: receives the sums.
        what: the selector's name, for messages.
        guess: from the last step; 0 for none.
    """
    low, swept = lower_guess(guess, OCTAVES[x.dtype]), None
    if low and x.size < MAX_SWEPT:
        swept = table.add_and_sweep(low)
    if swept is None:
        return SweptSource(x, what, 0, None) if table.add() else None
    return SweptSource(x, what, guess, swept) if all_finite(swept[1].view(x.dtype)) else None


def _join(arrays: Sequence[Array | None], sizes: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the memory of arrays as one vector if they follow each other in one array, else None.

    Args:
        arrays: any; None for a missing one.
        sizes: (n,) that they must have.
        dtype: that they must have.
    """
    head = arrays[0]
    if head is None or head.base is None:
        return None
    if [x for x in arrays if x is None or x.base is not head.base]:
        return None
    known = describe(arrays)
    ends = known.addresses + sizes * dtype.itemsize
    if (known.kinds != DTYPES.index(dtype)).any() or (known.sizes != sizes).any():
        return None
    if not known.writeable.all() or (ends[:-1] != known.addresses[1:]).any():
        return None
    return span(head, int(sizes.sum()))
