"""Selected elements of a whole model: batches of tensors, and one ``Support`` for each of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import DTYPES, Array
from wirecodec.cpu.batch import MIN_TENSORS
from wirecodec.select.base import BatchSelection
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

Shapes: TypeAlias = "Sequence[tuple[int, ...]] | Mapping[int, tuple[int, ...]]"


@dataclass(frozen=True, eq=False)
class SelectedBatch:
    """Selected elements of many tensors of one scheme and type; none is empty, none is full.

    Attributes:
        scheme: of all of them.
        keys: (n,) i64, ascending.
        sizes: (n,) i64, elements of each tensor.
        cuts: (n + 1,) i64, the place of each tensor's elements.
        indices: int32, each tensor's ascending.
        values: the elements there, all finite.
    """

    scheme: Scheme
    keys: Array
    sizes: Array
    cuts: Array
    indices: Array
    values: Array

    @classmethod
    def of(cls, scheme: Scheme, keys: Array, sizes: Array, found: BatchSelection) -> SelectedBatch:
        """Build a batch from a selector's result for the tensors with these keys and sizes."""
        members = found.members
        return cls(scheme, keys[members], sizes[members], found.cuts, found.indices, found.values)

    def supports(self, shapes: Shapes) -> dict[int, Support]:
        """Return {key: Support}; ``shapes`` are by key."""
        found, cuts = {}, self.cuts.tolist()
        columns = zip(self.keys.tolist(), self.sizes.tolist(), cuts, cuts[1:], strict=False)
        for key, size, start, stop in columns:
            found[key] = Support(self.indices[start:stop], self.values[start:stop], size, shapes[key])
        return found


@dataclass(frozen=True, eq=False)
class ModelSelection:
    """Selected elements of all tensors of a model, by key.

    Attributes:
        names: (n,) in the order of their keys.
        schemes: (n,).
        shapes: (n,).
        batches: tensors selected together.
        supports: those of all other tensors.
    """

    names: Sequence[str]
    schemes: Sequence[Scheme]
    shapes: Sequence[tuple[int, ...]]
    batches: Sequence[SelectedBatch]
    supports: Mapping[int, Support]

    def all_supports(self) -> dict[int, Support]:
        """Return the supports of all tensors, in the order of their keys."""
        found = dict(self.supports)
        for batch in self.batches:
            found |= batch.supports(self.shapes)
        return dict(sorted(found.items()))


def is_batchable(scheme: Scheme, method: str) -> bool:
    """Tell whether a scheme's tensors can be selected together, by a method of its selector."""
    return scheme.transform is None and not scheme.index.lossy and hasattr(scheme.select, method)


def group_tensors(
    schemes: Sequence[Scheme], kinds: Array, method: str
) -> list[tuple[Scheme, np.dtype[Any], Array]]:
    """Group tensors that one call of a selector's method can take.

    Args:
        schemes: (n,).
        kinds: (n,) i64, places of their element types in ``DTYPES``; negative for tensors of no group.
        method: name of the selector's method.

    Returns:
        (scheme, dtype, keys) of each group of ``MIN_TENSORS`` or more.
    """
    if np.count_nonzero(kinds >= 0) < MIN_TENSORS:
        return []
    identities = np.fromiter(map(id, schemes), np.int64, len(schemes))
    _, firsts, places = np.unique(identities, return_index=True, return_inverse=True)
    distinct: dict[Scheme, int] = {}
    for key in np.sort(firsts).tolist():
        distinct.setdefault(schemes[key], len(distinct))
    numbers = np.array([distinct[schemes[key]] for key in firsts.tolist()], np.int64)[places]
    groups = []
    for scheme, number in distinct.items():
        if not is_batchable(scheme, method):
            continue
        for kind, dtype in enumerate(DTYPES):
            keys = np.flatnonzero((numbers == number) & (kinds == kind))
            if keys.size >= MIN_TENSORS:
                groups.append((scheme, dtype, keys))
    return groups
