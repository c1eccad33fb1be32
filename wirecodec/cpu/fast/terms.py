"""Tensors that one call takes, and the terms of their sums in a step.

The terms are gradient, momentum and residual with their factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from wirecodec.arrays import Array, aligned
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.fast.headers import describe, describe_tensors
from wirecodec.element_types import DTYPES
from wirecodec.jobs import StepInput
from wirecodec.kernels import term_forms as forms
from wirecodec.registry import EXPERIMENTAL
from wirecodec.select.base import is_zero
from wirecodec.select.term_table import TermTable
from wirecodec.settings.feedback import ErrorFeedback, Feedback, MomentumCorrection
from wirecodec.settings.scheme import Scheme
from wirecodec.tensors import as_flat

MIN_SELECTED_PER_THREAD = 2**14
"""Selected elements that justify another thread."""


@dataclass(frozen=True, eq=False)
class TermColumns:
    """Columns of all tensors of a step.

    Attributes:
        arrays: the gradients as arrays, as far as they can be converted.
        shapes: of the gradients.
        gradients: columns of the arrays.
        wanted: the step.
        factor: of clipping.
    """

    arrays: Sequence[Any]
    shapes: list[Any]
    gradients: ArrayColumns
    wanted: StepInput
    factor: float

    @classmethod
    def of(cls, tensors: Sequence[Any], wanted: StepInput, factor: float) -> TermColumns | None:
        """Describe the gradients of a step; return None for a short tensor alone, which is added first."""
        arrays, shapes, gradients = describe_tensors(tensors)
        if len(tensors) == 1 and not wanted.jobs.groups:
            (scheme,) = wanted.jobs.schemes.values()
            if not scheme.select.takes_joint(int(gradients.sizes[0])):
                return None
        return cls(arrays, shapes, gradients, wanted, factor)

    @cached_property
    def free(self) -> Array:
        """(n,) bool, whether a tensor is not held: it is an array, and not zero."""
        if not self.wanted.hold_zeros:
            return np.ones(len(self.arrays), np.bool_)
        rows = zip(self.gradients.kinds.tolist(), self.arrays, strict=True)
        # Most gradients have another element near their first one.
        free = [kind >= 0 and (x.reshape(-1)[:64].any() or not is_zero(as_flat(x).data)) for kind, x in rows]
        return np.array(free, np.bool_)

    @cached_property
    def grouped(self) -> Array:
        """(n,) bool, whether a tensor is selected from as a part of a group."""
        groups = self.wanted.jobs.groups
        if not groups:
            return np.zeros(len(self.arrays), np.bool_)
        return np.fromiter(map(groups.__contains__, self.names), np.bool_, len(self.arrays))

    @cached_property
    def names(self) -> list[str]:
        """The tensors' names by key."""
        return self.wanted.jobs.names

    @cached_property
    def rules(self) -> list[Feedback | None]:
        """The distinct feedbacks."""
        return list({id(rule): rule for rule in self.wanted.jobs.rules.values()}.values())

    @cached_property
    def rule_numbers(self) -> Array:
        """(n,) i64, index into ``rules``; -1 if the tensor does not fit a table."""
        jobs = self.wanted.jobs
        if not self.rules:
            return np.full(len(jobs), -1)
        place = {id(rule): i if _keeps_all(rule) else -1 for i, rule in enumerate(self.rules)}
        place.setdefault(id(None), -1)
        rule_numbers = np.array([place[id(rule)] for rule in map(jobs.rules.get, self.names)], np.int64)
        kinds, sizes = self.gradients.kinds, self.gradients.sizes
        fits = self.free & ((kinds == _FLOAT32) | (kinds == _FLOAT64)) & (sizes > 0)
        fits &= (self._residuals.kinds == kinds) & (self._residuals.sizes == sizes)
        moving = np.array([isinstance(rule, MomentumCorrection) for rule in self.rules], bool)[rule_numbers]
        if moving.any():
            fits &= ~moving | ((self._momenta.kinds == kinds) & (self._momenta.sizes == sizes))
        rule_numbers[~fits] = -1
        return rule_numbers

    def split(self, keys: Array) -> Iterator[tuple[Feedback, Array]]:
        """Yield (feedback, keys) of the tensors of each feedback that a table can have."""
        rule_numbers = self.rule_numbers[keys]
        for number, rule in enumerate(self.rules):
            members = keys[rule_numbers == number]
            if members.size and rule is not None:
                yield rule, members

    def table(self, rule: Feedback, keys: Array, outputs: Array) -> tuple[TermTable, list[Array]]:
        """Return the table of tensors of one type, and their next momenta.

        Args:
            rule: their feedback.
            keys: of the tensors.
            outputs: (n,) i64, addresses of the arrays that receive their sums.
        """
        sizes, dtype = self.gradients.sizes[keys], self.dtype_of(keys)
        addresses = np.zeros((keys.size, 5), np.int64)
        addresses[:, forms.GRADIENT] = self.gradients.addresses[keys]
        addresses[:, forms.RESIDUAL] = self._residuals.addresses[keys]
        addresses[:, forms.TOTAL] = outputs
        form, keep, decay = self.form_of(rule), 0.0, 1.0
        after: list[Array] = []
        if isinstance(rule, MomentumCorrection):
            keep, spares = rule.momentum, self.wanted.jobs.spare_momenta
            after, places = reuse_each([spares.get(self.names[key]) for key in keys.tolist()], sizes, dtype)
            addresses[:, forms.MOMENTUM], addresses[:, forms.AFTER] = self._momenta.addresses[keys], places
        else:
            decay = rule.decay
        return TermTable(addresses, sizes, np.array([keep, self.factor, decay]), form, dtype), after

    def allocate(self, rule: Feedback, keys: Array) -> tuple[TermTable, list[Array], list[Array]]:
        """Return the table of tensors of one type, and the arrays that receive their sums and momenta."""
        sums, outputs = reuse_each(self.spares(keys), self.gradients.sizes[keys], self.dtype_of(keys))
        table, momenta = self.table(rule, keys, outputs)
        return table, sums, momenta

    def dtype_of(self, keys: Array) -> np.dtype[Any]:
        """Return the element type of tensors of one type."""
        return DTYPES[int(self.gradients.kinds[keys[0]])]

    def form_of(self, rule: Feedback) -> int:
        """Return the form of the sums of tensors with a feedback."""
        if isinstance(rule, MomentumCorrection):
            return forms.NESTEROV if rule.nesterov else forms.HEAVY_BALL
        return forms.SUM if rule.decay == self.factor == 1 else forms.PLAIN

    def spares(self, keys: Array) -> list[Array | None]:
        """Return the spare memory of residuals."""
        spares = self.wanted.jobs.spares
        return [spares.get(self.names[key]) for key in keys.tolist()]

    @cached_property
    def _residuals(self) -> ArrayColumns:
        residuals = self.wanted.jobs.residuals
        return describe([residuals.get(name) for name in self.names])

    @cached_property
    def _momenta(self) -> ArrayColumns:
        momenta = self.wanted.jobs.momenta
        return describe([momenta.get(name) for name in self.names])


_FLOAT32, _FLOAT64 = (DTYPES.index(np.dtype(name)) for name in ("float32", "float64"))


def _keeps_all(rule: Feedback | None) -> bool:
    """Tell whether all of the sum that is not sent is kept."""
    return isinstance(rule, MomentumCorrection) or (isinstance(rule, ErrorFeedback) and rule.beta == 1)


def reuse_each(
    spares: Sequence[Array | None], sizes: Array, dtype: np.dtype[Any]
) -> tuple[list[Array], Array]:
    """Return an array per size, aligned to 64 bytes, the spare one if it fits; and their addresses."""
    columns = describe(spares)
    fits = (columns.sizes == sizes) & (columns.addresses % 64 == 0) & columns.writeable
    fits &= columns.kinds == DTYPES.index(dtype)
    arrays: list[Any] = list(spares)
    if not fits.all():
        for i in np.flatnonzero(~fits).tolist():
            arrays[i] = aligned(int(sizes[i]), dtype)
        columns = describe(arrays)
    return arrays, columns.addresses


def can_select_together(scheme: Scheme) -> bool:
    """Tell whether a scheme selects from sums alone, and sends what was selected."""
    return not (scheme.transform or scheme.index.lossy or scheme.select.reads_gradient)


def can_encode_together(scheme: Scheme) -> bool:
    """Tell whether the sections of a scheme's tensors can be made without an entry per tensor."""
    index, value = scheme.index, scheme.value
    if getattr(index, "wire_id", 0) >= EXPERIMENTAL or getattr(value, "wire_id", 0) >= EXPERIMENTAL:
        return False
    return not (index.lossy or value.ordered)


def _takes_many(scheme: Scheme) -> bool:
    """Tell whether a scheme's selector takes many tensors, or their terms, at a time."""
    return scheme.select.selects_sums and can_select_together(scheme)


def group_tensors(
    schemes: Sequence[Scheme], kinds: Array, least: int, takes: Callable[[Scheme], bool] = _takes_many
) -> list[tuple[Scheme, np.dtype[Any], Array]]:
    """Group tensors whose selector takes many of them, or their terms, at a time.

    Args:
        schemes: (n,).
        kinds: (n,) i64, places of their element types in ``DTYPES``; negative for tensors of no group.
        least: tensors of a group.
        takes: tells whether a scheme's tensors can be of a group.

    Returns:
        (scheme, dtype, keys) of each group.
    """
    if np.count_nonzero(kinds >= 0) < least:
        return []
    if len(set(map(id, schemes))) == 1:
        firsts, places = np.zeros(1, np.int64), np.zeros(len(schemes), np.int64)
    else:
        identities = np.fromiter(map(id, schemes), np.int64, len(schemes))
        _, firsts, places = np.unique(identities, return_index=True, return_inverse=True)
    distinct: dict[Scheme, int] = {}  # schemes that cannot be taken may not be hashable
    numbers_of = {
        key: distinct.setdefault(schemes[key], len(distinct)) if takes(schemes[key]) else -1
        for key in np.sort(firsts).tolist()
    }
    numbers = np.array([numbers_of[key] for key in firsts.tolist()], np.int64)[places]
    groups = []
    for scheme, number in distinct.items():
        for kind, dtype in enumerate(DTYPES):
            keys = np.flatnonzero((numbers == number) & (kinds == kind))
            if keys.size >= least:
                groups.append((scheme, dtype, keys))
    return groups
