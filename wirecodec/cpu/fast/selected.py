"""Selected elements of many tensors of one scheme and type, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.writer import Entry
from wirecodec.element_types import DTYPES
from wirecodec.select.base import BatchSelection
from wirecodec.settings.scheme import Scheme
from wirecodec.support import SectionBatch, Support

MIN_SELECTED_PER_THREAD = 2**14
"""Selected elements that justify another thread."""


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


def can_select_together(scheme: Scheme) -> bool:
    """Tell whether a scheme selects from sums alone, and sends what was selected."""
    return not (scheme.transform or scheme.index.lossy or scheme.select.reads_gradient)


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
