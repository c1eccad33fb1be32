"""Memory on the host that later steps overwrite, and caches of their searches.

A step computes the next residuals in other arrays than the current ones, so that a failed step changes
nothing. New arrays would cost more than the sums. So the arrays of a state that was replaced are used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.compressor.state import State
from wirecodec.jobs import StepResult, TensorJobs
from wirecodec.tensors import any_on_gpu, on_gpu

_KINDS = ("residuals", "momenta")


MAX_SETS = 256
"""Sets of tensors whose thresholds are kept; a step in parts has one per part."""


class LastThresholds:
    """Cache of the thresholds of the last step's searches on the host, 8 bytes per tensor.

    The next search starts there, and finds what a search from the beginning finds.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], Array] = {}

    def __reduce__(self) -> tuple[type[LastThresholds], tuple[()]]:
        """Copy as an empty cache."""
        return LastThresholds, ()

    def of(self, names: Iterable[str]) -> Array:
        """Return the thresholds of a set of tensors, (n,) u64; 0 if unknown. A step overwrites them."""
        key = tuple(names)
        if key not in self._found:
            if len(self._found) >= MAX_SETS:
                self._found.clear()
            self._found[key] = np.zeros(len(key), np.uint64)
        return self._found[key]


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory and caches of the steps of one rank; results do not depend on them.

    Attributes:
        searches: ends of the last step's searches on a GPU, by name.
        thresholds: ends of those on the host.
        free: residuals and momenta that no state holds, by kind and name.
        own: those of the current state that no copy of it holds; they are free after the next step.
        sums: arrays in which CLT-k computes its sums and residuals, by name.
        plans: plans of batches on a GPU.
    """

    searches: dict[str, Any] = field(default_factory=dict)
    thresholds: LastThresholds = field(default_factory=LastThresholds)
    free: dict[str, dict[str, Array]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    own: dict[str, dict[str, Array]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    sums: dict[str, list[Array]] = field(default_factory=dict)
    plans: dict[Any, Any] = field(default_factory=dict)

    def fork(self) -> Memory:
        """Return another record of the same arrays, with the same caches."""
        free, own = ({kind: dict(record[kind]) for kind in _KINDS} for record in (self.free, self.own))
        return replace(self, free=free, own=own, sums=dict(self.sums))

    def take(self, names: Mapping[str, Any], *, momenta: bool) -> tuple[dict[str, Array], dict[str, Array]]:
        """Remove and return the memory of residuals, and of momenta if wanted, of these tensors."""
        return _take(self.free["residuals"], names), _take(self.free["momenta"], names) if momenta else {}

    def put_unused(self, jobs: TensorJobs, result: StepResult) -> None:
        """Keep the memory that a step did not need: that of tensors that were held."""
        for free, given, made in (
            (self.free["residuals"], jobs.spares, result.residuals),
            (self.free["momenta"], jobs.spare_momenta, result.momenta),
        ):
            if given.keys() != made.keys():
                free |= {name: x for name, x in given.items() if name not in made}

    def advance(self, before: State, after: State) -> None:
        """Free the arrays that a committed step has replaced."""
        for kind in _KINDS:
            old, made, own = getattr(before, kind), getattr(after, kind), self.own[kind]
            if made is old:
                continue
            new = _find_new(old, made)
            self.free[kind].update({name: x for name in new if (x := own.get(name)) is old.get(name, self)})
            own.update(new)

    def take_back(self, before: State, after: State) -> None:
        """Free the new arrays of a step that was rolled back."""
        for kind in _KINDS:
            self.free[kind].update(_find_new(getattr(before, kind), getattr(after, kind)))


def _take(free: dict[str, Array], names: Mapping[str, Any]) -> dict[str, Array]:
    """Remove the arrays with these names from a dict, and return them."""
    if free.keys() <= names.keys():
        taken = dict(free)
        free.clear()
        return taken
    return {name: free.pop(name) for name in names if name in free}


def _find_new(before: Mapping[str, Array], after: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays on the host that a step has made."""
    new = {name: x for name, x in after.items() if before.get(name) is not x}
    if any_on_gpu(new.values()):
        new = {name: x for name, x in new.items() if not on_gpu(x)}
    return new


def all_to_host(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arrays by name on the host."""
    return {name: to_host(x) for name, x in arrays.items()} if any_on_gpu(arrays.values()) else arrays


def to_host(x: Any) -> Any:
    """Return an array on the host, copied if it is on a GPU; None for None."""
    if x is None or not on_gpu(x):
        return x
    from wirecodec.gpu import entry

    return entry.copy_to_host(x)
