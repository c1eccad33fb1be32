"""Selection from groups of tensors as from one vector each, and the residuals that are left.

The sums are written tensor by tensor while the top k is selected, or into one vector for any other selector.
What is selected keeps its positions in the group until it is encoded: a fused entry has the same ones.
``cpu.group_alone`` has the groups that a table cannot have: those without residuals yet, with lossy index
codecs, or with several weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wirecodec.arrays import DTYPES, Array, Flat, addresses_of, aligned, read_only
from wirecodec.cpu.batch.step import store_differences, take_memory
from wirecodec.cpu.columns import describe
from wirecodec.cpu.costs import group_bytes
from wirecodec.cpu.group_alone import at_member
from wirecodec.cpu.select import choose
from wirecodec.cpu.stream import take
from wirecodec.cpu.terms import TermColumns, clear_selected, is_masking
from wirecodec.errors import EncodeError
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.select.term_table import TermTable
from wirecodec.settings.feedback import Feedback
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support


@dataclass(frozen=True, eq=False)
class GroupSelection:
    """Selected elements of a group of tensors.

    Attributes:
        scheme: of all of them.
        keys: (n,) i64, ascending.
        table: of their terms, whose sums and momenta are written.
        support: the elements to send; positions are those in the vector of all tensors.
        cuts: (n + 1,) i64, the place of each tensor's elements.
        selector: the selector's next state, which the first tensor keeps; or None.
        rests: sum of each tensor.
        momenta: next momentum of each tensor, or empty.
        vector: all sums as one vector; None if each has +0 at its selected elements.
    """

    scheme: Scheme
    keys: Array
    table: TermTable
    support: Support
    cuts: Array
    selector: Any
    rests: Sequence[Array]
    momenta: Sequence[Array]
    vector: Array | None

    def support_of(self, first: int, stop: int, shapes: Sequence[tuple[int, ...]]) -> Support:
        """Return the elements of tensors first ... stop - 1, as of one vector.

        Args:
            first, stop: places in ``keys``.
            shapes: of all tensors of the model, by key; for one tensor alone.
        """
        if stop - first == self.keys.size > 1:
            return self.support
        base, size = int(self.table.starts[first]), int(self.table.starts[stop] - self.table.starts[first])
        shape = shapes[int(self.keys[first])] if stop - first == 1 else (size,)
        here, whole = slice(self.cuts[first], self.cuts[stop]), self.support
        values, indices = whole.values[here], whole.indices
        if indices is not None and values.size < size:
            indices = indices[here] - indices.dtype.type(base) if base else indices[here]
        else:
            indices = None
        return Support(indices, values, size, shape, step=whole.step, finite=whole.finite)

    def subtract(self, first: int, stop: int, sent: Array) -> None:
        """Complete the residuals of tensors first ... stop - 1, in place.

        Args:
            first, stop: places in ``keys``.
            sent: (k,) the values that receivers decode at their selected elements.
        """
        here, indices = slice(self.cuts[first], self.cuts[stop]), self.support.indices
        if self.vector is None:
            assert indices is not None
            cuts, sizes = self.cuts[first : stop + 1] - self.cuts[first], self.table.sizes[first:stop]
            bases = self.table.starts[first:stop]
            places = self.table.addresses[first:stop, 4] - bases * self.table.dtype.itemsize
            sent = np.ascontiguousarray(sent)
            received = addresses_of([sent]) + cuts[:-1] * sent.itemsize
            values, sizes = self.support.values[here], sizes + bases
            store_differences(values, indices[here], cuts, received, places, sizes, cleared=True)
            return
        part = self.vector[self.table.starts[first] : self.table.starts[stop]]
        with np.errstate(over="ignore"):
            if indices is None:
                part -= sent
                part[~np.isfinite(part)] = 0
                return
            places = indices[here] - indices.dtype.type(self.table.starts[first])
            left = take(part, places) - sent
        left[~np.isfinite(left)] = 0
        part[places] = left


def select_groups(columns: TermColumns) -> list[GroupSelection]:
    """Add all terms and select, for the groups whose tensors have the same form of terms.

    Raises EncodeError, which names a tensor.
    """
    jobs = columns.wanted.jobs
    members: dict[tuple[Any, int], list[int]] = {}
    kinds = columns.gradients.kinds
    for key in np.flatnonzero(columns.free).tolist() if jobs.groups else ():
        name = columns.names[key]
        if name in jobs.groups:
            members.setdefault((jobs.groups[name], int(kinds[key])), []).append(key)
    found = []
    for listed in members.values():
        keys = np.array(listed, np.int64)
        scheme = jobs.schemes[columns.names[listed[0]]]
        rules = list(columns.split(keys))
        weights = {jobs.weights.get(columns.names[key], 1.0) for key in listed}
        alike = len(weights) == 1 and len(rules) == 1 and rules[0][1].size == keys.size
        if alike and _is_plain(scheme):
            selection = _select(columns, scheme, rules[0][0], keys)
            if selection is not None:
                found.append(selection)
    return found


def _is_plain(scheme: Scheme) -> bool:
    """Tell whether a scheme selects from sums alone and sends what was selected."""
    return not (scheme.index.lossy or isinstance(scheme.select, AdaComp) or scheme.transform)


def _select(columns: TermColumns, scheme: Scheme, rule: Feedback, keys: Array) -> GroupSelection | None:
    """Select from one group; return None if its sums are not finite."""
    sizes, dtype = columns.gradients.sizes[keys], DTYPES[int(columns.gradients.kinds[keys[0]])]
    spares = columns.spares(keys)
    selector: Any = scheme.select
    if hasattr(selector, "select_group") and selector.takes_group(int(sizes.sum())):
        rests, outputs = take_memory(spares, sizes, dtype)
        table, momenta = columns.table(rule, keys, outputs)
        selection = selector.select_group(table)
        if selection is not None:
            indices, values = selection.indices, selection.values
            support = Support(indices, values, table.total, (table.total,), finite=True)
            return _complete(columns, rule, scheme, keys, table, support, None, rests, momenta)
    x = _join(spares, sizes, dtype)
    x = aligned(int(sizes.sum()), dtype) if x is None else x
    starts = np.cumsum(sizes) - sizes
    table, momenta = columns.table(rule, keys, x.ctypes.data + starts * dtype.itemsize)
    if not table.add():
        return None
    first = columns.wanted.jobs[columns.names[int(keys[0])]]
    header = keys.size * first.header + group_bytes(keys.size)
    try:
        flat = Flat(read_only(x), (x.size,))
        support, state = choose(flat, scheme, state=first.state, seed=first.seed, header=header)
    except EncodeError as error:
        raise at_member(error, [columns.names[key] for key in keys.tolist()], table.starts) from None
    parts = zip(table.starts.tolist(), table.starts[1:].tolist(), strict=False)
    rests = [x[a:b] for a, b in parts]
    return _complete(columns, rule, scheme, keys, table, support, state, rests, momenta, x)


def _complete(
    columns: TermColumns,
    rule: Feedback,
    scheme: Scheme,
    keys: Array,
    table: TermTable,
    support: Support,
    state: Any,
    rests: Sequence[Array],
    momenta: Sequence[Array],
    vector: Array | None = None,
) -> GroupSelection:
    """Stop the momentum of the selected elements, and return the group."""
    indices, starts = support.indices, table.starts
    cuts = starts
    if indices is not None:
        cuts = np.searchsorted(indices, starts.astype(indices.dtype))
    if is_masking(rule):
        if indices is None:
            for x in momenta:
                x[:] = 0
        else:
            clear_selected(table, indices, cuts, starts[:-1])
    return GroupSelection(scheme, keys, table, support, cuts, state, rests, momenta, vector)


def _join(arrays: Sequence[Array | None], sizes: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the memory of arrays as one vector if they follow each other in one array, else None.

    Args:
        arrays: any; None for a missing one.
        sizes: (n,) that they must have.
        dtype: that they must have.
    """
    head = arrays[0]
    if head is None or head.base is None or any(x is None or x.base is not head.base for x in arrays):
        return None
    known = describe(arrays)
    ends = known.addresses + sizes * dtype.itemsize
    if (known.kinds != DTYPES.index(dtype)).any() or (known.sizes != sizes).any():
        return None
    if not known.writeable.all() or (ends[:-1] != known.addresses[1:]).any():
        return None
    vector: Array = as_strided(head, (int(sizes.sum()),))
    return vector
