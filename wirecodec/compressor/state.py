"""State of a Compressor: what persists from step to step, per tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wirecodec.arrays import Array, any_on_gpu, on_gpu
from wirecodec.compressor.loaded import UNKNOWN_RANK, Loaded
from wirecodec.step import StepResult, TensorJobs


@dataclass(frozen=True, eq=False)
class State:
    """State that a step changes; ``commit`` replaces it as a whole.

    Attributes:
        step: committed steps so far.
        residuals, selectors, momenta: arrays by the tensors' names.
        rank: of the last step, or UNKNOWN_RANK.
        loaded: what a loaded state is not yet compared with, or None.
    """

    step: int = 0
    residuals: Mapping[str, Array] = field(default_factory=dict)
    selectors: Mapping[str, Array] = field(default_factory=dict)
    momenta: Mapping[str, Array] = field(default_factory=dict)
    rank: int = UNKNOWN_RANK
    loaded: Loaded | None = None

    def next(
        self,
        residuals: Mapping[str, Array],
        selectors: Mapping[str, Array],
        momenta: Mapping[str, Array],
        rank: int,
    ) -> State:
        """Return the state after a step of a rank; tensors that were not in this step keep theirs."""
        return State(
            self.step + 1,
            {**self.residuals, **residuals},
            {**self.selectors, **selectors},
            {**self.momenta, **momenta} if momenta else self.momenta,
            rank,
        )

    def settle(self, rank: int, names: Collection[str]) -> State:
        """Return the state for a step of these tensors: a loaded one is compared, and drops what is stale.

        Raises EncodeError if it was saved by another rank.
        """
        if self.loaded is None:
            return self
        return replace(self._without(self.loaded.find_dropped(self._names(), rank, names)), loaded=None)

    def settle_names(self, names: Collection[str]) -> State:
        """Return the state after the names of a loaded one were compared with those of all tensors.

        Raises EncodeError if they do not fit.
        """
        if self.loaded is None or self.loaded.names_fit:
            return self
        kept = self._without(self.loaded.find_unnamed(self._names(), names))
        return replace(kept, loaded=self.loaded.with_names())

    def _names(self) -> set[str]:
        return {*self.residuals, *self.selectors, *self.momenta}

    def _without(self, names: Collection[str]) -> State:
        """Return the state without the arrays of these tensors."""
        if not names:
            return self
        residuals, selectors, momenta = (
            {name: x for name, x in kind.items() if name not in names}
            for kind in (self.residuals, self.selectors, self.momenta)
        )
        return replace(self, residuals=residuals, selectors=selectors, momenta=momenta)

    def copy(self) -> State:
        """Copy the state with its arrays, because later steps overwrite their memory."""
        residuals = {name: x.copy() for name, x in self.residuals.items()}
        momenta = {name: x.copy() for name, x in self.momenta.items()}
        return replace(self, residuals=residuals, momenta=momenta)


class SpareMemory:
    """Memory on the host of residuals and momenta that no state holds, by the tensors' names."""

    def __init__(self) -> None:
        self.residuals: dict[str, Array] = {}
        self.momenta: dict[str, Array] = {}

    def copy(self) -> SpareMemory:
        """Return another record of the same arrays."""
        copied = SpareMemory()
        copied.residuals, copied.momenta = dict(self.residuals), dict(self.momenta)
        return copied

    def take(self, names: Mapping[str, Any], *, momenta: bool) -> tuple[dict[str, Array], dict[str, Array]]:
        """Remove and return the memory of residuals, and of momenta if wanted, of these tensors."""
        return _take(self.residuals, names), _take(self.momenta, names) if momenta else {}

    def reuse(self, old: State, kept: State) -> None:
        """Keep the memory of arrays that only one of two states holds, for later steps."""
        for spare, before, after in (
            (self.residuals, old.residuals, kept.residuals),
            (self.momenta, old.momenta, kept.momenta),
        ):
            left = {name: array for name, array in before.items() if after.get(name) is not array}
            if any_on_gpu(left.values()):
                left = {name: array for name, array in left.items() if not on_gpu(array)}
            spare.update(left)

    def keep_unused(self, jobs: TensorJobs, done: StepResult) -> None:
        """Keep the memory that a step did not need: that of tensors that were held."""
        for kept, given, made in (
            (self.residuals, jobs.spares, done.residuals),
            (self.momenta, jobs.spare_momenta, done.momenta),
        ):
            kept |= {name: x for name, x in given.items() if name not in made}


def _take(held: dict[str, Array], names: Mapping[str, Any]) -> dict[str, Array]:
    """Remove the arrays with these names from a dict, and return them."""
    if held.keys() <= names.keys():
        taken = dict(held)
        held.clear()
        return taken
    return {name: held.pop(name) for name in names if name in held}


def all_to_host(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arrays by name on the host."""
    return {name: to_host(x) for name, x in arrays.items()} if any_on_gpu(arrays.values()) else arrays


def to_host(x: Any) -> Any:
    """Return an array on the host, copied if it is on a GPU; None for None."""
    if x is None or not on_gpu(x):
        return x
    from wirecodec.gpu import entry

    return entry.copy_to_host(x)
