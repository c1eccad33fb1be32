"""Terms of many tensors in a step: gradient, momentum and residual with their factors, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array
from wirecodec.cpu.batch.selection import SelectedBatch, group_tensors
from wirecodec.cpu.batch.step import SumBatch, take_memory
from wirecodec.cpu.columns import ArrayColumns, describe
from wirecodec.select.term_table import TermTable
from wirecodec.settings.feedback import ErrorFeedback, Feedback, MomentumCorrection
from wirecodec.step import StepInput

MIN_CLEARED_PER_THREAD = 2**14
"""Selected elements that justify another thread."""


@dataclass(frozen=True, eq=False)
class TermBatch:
    """Selected elements of many sums, and the next momenta.

    Attributes:
        sums: the elements and the sums.
        momenta: {key: next momentum}; empty without momentum.
    """

    sums: SumBatch
    momenta: Mapping[int, Array]


@dataclass(frozen=True, eq=False)
class TermColumns:
    """Columns of all tensors of a step.

    Args:
        gradients: columns of all tensors, by key.
        wanted: the step.
        free: (n,) bool, the tensors that may be taken.
        factor: of clipping.
    """

    gradients: ArrayColumns
    wanted: StepInput
    free: Array
    factor: float

    @cached_property
    def names(self) -> list[str]:
        """The tensors' names by key."""
        return list(self.wanted.jobs)

    @cached_property
    def rules(self) -> list[Feedback | None]:
        """The distinct feedbacks."""
        return list({id(rule): rule for rule in self.wanted.jobs.rules.values()}.values())

    @cached_property
    def numbers(self) -> Array:
        """(n,) i64, the place of each tensor's feedback in ``rules``; -1 for one that a table cannot have."""
        jobs = self.wanted.jobs
        place = {id(rule): i if _has_terms(rule) else -1 for i, rule in enumerate(self.rules)}
        found = np.fromiter((place[id(jobs.rules[name])] for name in self.names), np.int64, len(self.names))
        held, kinds = self._residuals, self.gradients.kinds
        fits = self.free & np.isin(kinds, _KINDS) & (self.gradients.sizes > 0)
        fits &= (held.kinds == kinds) & (held.sizes == self.gradients.sizes)
        moving = np.array([isinstance(rule, MomentumCorrection) for rule in self.rules], bool)[found]
        if moving.any():
            momenta = self._momenta
            fits &= ~moving | ((momenta.kinds == kinds) & (momenta.sizes == self.gradients.sizes))
        found[~fits] = -1
        return found

    def split(self, keys: Array) -> Iterator[tuple[Feedback, Array]]:
        """Yield (feedback, keys) of the tensors of each feedback that a table can have."""
        numbers = self.numbers[keys]
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rule = self.rules[number]
            assert rule is not None
            yield rule, keys[numbers == number]

    def table(self, rule: Feedback, keys: Array, outputs: Array) -> tuple[TermTable, list[Array]]:
        """Return the table of tensors of one type, and their next momenta.

        Args:
            rule: their feedback.
            keys: of the tensors.
            outputs: (n,) i64, addresses of the arrays that receive their sums.
        """
        from wirecodec.kernels.cpu.select import momentum

        sizes, dtype = self.gradients.sizes[keys], DTYPES[int(self.gradients.kinds[keys[0]])]
        addresses = np.zeros((keys.size, 5), np.int64)
        addresses[:, 0], addresses[:, 2] = self.gradients.addresses[keys], self._residuals.addresses[keys]
        addresses[:, 4] = outputs
        form, keep, decay = momentum.PLAIN, 0.0, 1.0
        after: list[Array] = []
        if isinstance(rule, MomentumCorrection):
            form, keep = momentum.NESTEROV if rule.nesterov else momentum.HEAVY_BALL, rule.momentum
            spares = self.wanted.jobs.spare_momenta
            after, places = take_memory([spares.get(self.names[key]) for key in keys.tolist()], sizes, dtype)
            addresses[:, 1], addresses[:, 3] = self._momenta.addresses[keys], places
        else:
            decay = rule.decay
        factors = np.array([keep, self.factor, decay])
        return TermTable(addresses, sizes, factors, form, dtype), after

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


_KINDS = [DTYPES.index(np.dtype(name)) for name in ("float32", "float64")]


def _has_terms(rule: Feedback | None) -> bool:
    """Tell whether all of the sum that is not sent is kept."""
    return isinstance(rule, MomentumCorrection) or (isinstance(rule, ErrorFeedback) and rule.beta == 1)


def select_term_batches(columns: TermColumns) -> list[TermBatch]:
    """Add all terms and select, for the tensors that a batch can take."""
    schemes = list(columns.wanted.jobs.schemes.values())
    kinds = np.where(columns.free, columns.gradients.kinds, -1)
    batches = []
    for scheme, dtype, found in group_tensors(schemes, kinds, "select_terms_batch"):
        if DTYPES.index(dtype) not in _KINDS:
            continue
        for rule, keys in columns.split(found):
            sizes = columns.gradients.sizes[keys]
            rests, outputs = take_memory(columns.spares(keys), sizes, dtype)
            table, momenta = columns.table(rule, keys, outputs)
            selector: Any = scheme.select
            selection = selector.select_terms_batch(table)
            if selection is None:
                continue
            members = selection.members
            chosen = SelectedBatch.of(scheme, keys, sizes, selection)
            if is_masking(rule):
                table = replace(table, addresses=table.addresses[members], sizes=table.sizes[members])
                clear_selected(table, chosen.indices, chosen.cuts, np.zeros(members.size, np.int64))
            after = {int(keys[member]): momenta[member] for member in members.tolist() if momenta}
            batches.append(TermBatch(SumBatch.of(chosen, rests, outputs, members), after))
    return batches


def is_masking(rule: Feedback) -> bool:
    """Tell whether the momentum of elements that are sent becomes 0."""
    return isinstance(rule, MomentumCorrection) and rule.masking


def clear_selected(table: TermTable, indices: Array, cuts: Array, bases: Array) -> None:
    """Set the next momentum to 0 at the selected elements.

    Args:
        table: of the tensors.
        indices: the elements of all tensors.
        cuts: (n + 1,) i64, the place of each tensor's elements.
        bases: (n,) i64, subtracted from each tensor's elements.
    """
    from wirecodec.kernels.cpu.select import momentum_batch
    from wirecodec.kernels.cpu.threads import run_parallel

    n, addresses = table.sizes.size, np.ascontiguousarray(table.addresses[:, 3])
    like = np.empty(0, table.dtype)
    run_parallel(
        lambda turns: momentum_batch.clear_at(indices, cuts, bases, addresses, table.sizes, like, turns),
        n,
        max(1, MIN_CLEARED_PER_THREAD * n // max(1, indices.size)),
    )
