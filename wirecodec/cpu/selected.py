"""Selected elements: of many tensors of one scheme and type as columns, and of a whole model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.writer import Entry
from wirecodec.cpu.fuse import Run, concatenate, find_vectors, kinds_of, plan_runs
from wirecodec.select.base import BatchSelection
from wirecodec.settings.scheme import Scheme
from wirecodec.support import SectionBatch, Support


@dataclass(frozen=True, eq=False)
class Selected:
    """Selected elements of tensors as columns; the ``Support`` of a tensor is a row.

    Attributes:
        scheme: of all tensors; its index codec is exact, and it has no transform.
        keys: (n,) i64, ascending.
        sizes: (n,) i64, elements of each tensor.
        starts: (n,) i64, where the positions of each tensor begin: 0, or the first position of each in the
            vector of all tensors if they were selected as one.
        cuts: (n + 1,) i64, the place of each tensor's elements in ``indices`` and ``values``.
        indices: positions, ascending within each tensor; None for all elements.
        values: the elements to send.
        joint: whether the tensors were selected as one vector.
        step, entries: as in ``Support``, of all tensors as one vector.
        steps: (n,) f64, the step of each tensor, if they have different ones; else None.
        value_sections: the encoded values of tensors that were selected one by one, or None.
        finite: whether the values are known to be finite.
        sums: each tensor's sum, which becomes its next residual; empty if none is kept.
        kept: the sums at the selected elements; None if they are ``values``.
        cleared: whether the sums have +0 at the selected elements.
        momenta: each tensor's next momentum, or empty.
        state: the selector's next state, which the first tensor keeps; or None.
    """

    scheme: Scheme
    keys: Array
    sizes: Array
    starts: Array
    cuts: Array
    indices: Array | None
    values: Array
    joint: bool = False
    step: float | None = None
    entries: Sequence[Entry] | None = None
    steps: Array | None = None
    value_sections: SectionBatch | None = None
    finite: bool = True
    sums: Sequence[Array] = ()
    kept: Array | None = None
    cleared: bool = False
    momenta: Sequence[Array] = ()
    state: Any = None

    @classmethod
    def each(cls, scheme: Scheme, keys: Array, sizes: Array, selection: BatchSelection) -> Selected:
        """Build the columns of tensors that were selected one by one; ``selection`` may leave some out."""
        members = selection.members
        starts = np.zeros(members.size, np.int64)
        columns = selection.cuts, selection.indices, selection.values
        return cls(scheme, keys[members], sizes[members], starts, *columns)

    def supports(self, shapes: Shapes) -> dict[int, Support]:
        """Return {key: Support}; ``shapes`` are by key."""
        rows = enumerate(self.keys.tolist())
        return {key: self.support_of(at, at + 1, shapes) for at, key in rows}

    def support_of(self, first: int, stop: int, shapes: Shapes) -> Support:
        """Return the elements of tensors first ... stop - 1, as of one vector.

        Args:
            first, stop: places in ``keys``; more than one tensor only if they were selected as one vector.
            shapes: by key, for one tensor alone.
        """
        base, size = int(self.starts[first]), int(self.sizes[first:stop].sum())
        shape = shapes[int(self.keys[first])] if stop - first == 1 else (size,)
        here = slice(int(self.cuts[first]), int(self.cuts[stop]))
        values, indices = self.values[here], None
        if self.indices is not None and values.size < size:
            indices = self.indices[here]
            indices = indices - indices.dtype.type(base) if base else indices
        entries = self.entries if stop - first == self.keys.size else None
        step = self.step if self.steps is None else float(self.steps[first])
        return Support(indices, values, size, shape, step=step, entries=entries, finite=self.finite)

    def without(self, rows: Array) -> Selected:
        """Return the columns of tensors that were selected one by one, without some, (n,) bool."""
        if not rows.any():
            return self
        counts = np.diff(self.cuts)
        stays, elements = ~rows, np.repeat(~rows, counts)
        assert self.indices is not None
        return replace(
            self,
            keys=self.keys[stays],
            sizes=self.sizes[stays],
            starts=self.starts[stays],
            cuts=np.r_[0, np.cumsum(counts[stays])],
            indices=self.indices[elements],
            values=self.values[elements],
            steps=None if self.steps is None else self.steps[stays],
            value_sections=None,
        )


Shapes = Mapping[int, tuple[int, ...]] | Sequence[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class ModelSelection:
    """Selected elements of all tensors of a model, by key.

    Attributes:
        names, schemes, shapes: (n,).
        batches: tensors that were selected together.
        supports: those of all other tensors, ascending.
    """

    names: Sequence[str]
    schemes: Sequence[Scheme]
    shapes: Sequence[tuple[int, ...]]
    batches: Sequence[Selected]
    supports: Mapping[int, Support]

    @cached_property
    def _places(self) -> dict[int, tuple[Selected, int]]:
        return {key: (batch, at) for batch in self.batches for at, key in enumerate(batch.keys.tolist())}

    def support_of(self, run: Run) -> Support:
        """Return the selected elements of a tensor, or of several as one vector."""
        if len(run) == 1 and run[0] in self.supports:
            return self.supports[run[0]]
        if run[0] in self._places:
            batch, at = self._places[run[0]]
            follow = batch.joint and np.array_equal(batch.keys[at : at + len(run)], run)
            if len(run) == 1 or follow:
                return batch.support_of(at, at + len(run), self.shapes)
        return concatenate([self.support_of((key,)) for key in run])

    @cached_property
    def vectors(self) -> tuple[Array, ...]:
        """Rows (key, size) of the tensors that are transformed as one vector, for each vector."""
        return find_vectors(self.supports) if self.supports else ()

    def counts_of(self, keys: Sequence[int]) -> list[int]:
        """Return the number of selected elements of each of some tensors."""
        counts = []
        for key in keys:
            if key in self.supports:
                counts.append(self.supports[key].values.size)
            else:
                batch, at = self._places[key]
                counts.append(int(batch.cuts[at + 1] - batch.cuts[at]))
        return counts

    def plan(self, fuse: int) -> tuple[list[int], tuple[Run, ...]]:
        """Return the elements of each tensor, and the keys of each entry that small tensors share."""
        n, numbers = len(self.names), dict[Any, int]()
        sizes, kinds = [0] * n, [-1] * n
        for batch in self.batches:
            owner = None if batch.entries is None or batch.keys.size == 1 else batch
            number = numbers.setdefault((batch.values.dtype, batch.scheme, owner, batch.step), len(numbers))
            for key, size in zip(batch.keys.tolist(), batch.sizes.tolist(), strict=True):
                sizes[key], kinds[key] = size, number
        if self.supports:
            schemes = [self.schemes[key] for key in self.supports]
            support_kinds = kinds_of(self.supports.values(), schemes, numbers)
            for (key, support), kind in zip(self.supports.items(), support_kinds, strict=True):
                sizes[key], kinds[key] = support.size, kind
        return sizes, tuple([run for run in plan_runs(tuple(sizes), tuple(kinds), fuse) if len(run) > 1])


def find_others(n: int, batches: Sequence[Selected]) -> list[int]:
    """Return the keys below n of no batch, ascending."""
    if not batches:
        return list(range(n))
    others = np.ones(n, np.bool_)
    for batch in batches:
        others[batch.keys] = False
    keys: list[int] = np.flatnonzero(others).tolist()
    return keys
