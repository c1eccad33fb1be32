"""State of one rank between two steps of a training, per tensor.

A state is a value: a step takes one and returns the next, and neither changes. A Compressor, CLT-k and gTop-k
share it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from wirecodec.arrays import Array
from wirecodec.compressor.loaded import UNKNOWN_RANK, Loaded
from wirecodec.prng import mix


@dataclass(frozen=True, eq=False)
class State:
    """State that a step replaces as a whole.

    Attributes:
        step: steps so far.
        residuals, selectors, momenta: arrays by the tensors' names.
        seed: of all random numbers, a u64.
        rank: of the last step, or UNKNOWN_RANK.
        loaded: what a loaded state is not yet compared with, or None.
    """

    step: int = 0
    residuals: Mapping[str, Array] = field(default_factory=dict)
    selectors: Mapping[str, Array] = field(default_factory=dict)
    momenta: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0
    rank: int = UNKNOWN_RANK
    loaded: Loaded | None = None

    def next(
        self,
        rank: int,
        residuals: Mapping[str, Array],
        selectors: Mapping[str, Array] | None = None,
        momenta: Mapping[str, Array] | None = None,
    ) -> State:
        """Return the state after a step of a rank; tensors that were not in this step keep theirs."""
        return State(
            self.step + 1,
            {**self.residuals, **residuals},
            {**self.selectors, **selectors} if selectors else self.selectors,
            {**self.momenta, **momenta} if momenta else self.momenta,
            self.seed,
            rank,
        )

    def fork(self, number: int, latest: State) -> State:
        """Return the state for a part of the step that begins in this state.

        Args:
            number: of the part, from 0.
            latest: the state after the earlier parts; this one for the first.
        """
        seed = mix(self.seed, number) if number else self.seed
        loaded = None if latest.loaded is None else latest.loaded.with_names()  # a part has some names only
        return replace(latest, step=self.step, seed=seed, loaded=loaded)

    def join(self, latest: State) -> State:
        """Return the state after the step that begins in this state, from the one after its last part."""
        return replace(latest, step=self.step + 1, seed=self.seed)

    def fit(self, rank: int, names: Collection[str]) -> State:
        """Return the state for a step of these tensors: a loaded one is compared, and drops what is stale.

        Raises EncodeError if it was saved by another rank.
        """
        if self.loaded is None:
            return self
        return replace(self._without(self.loaded.find_dropped(self._names(), rank, names)), loaded=None)

    def fit_names(self, names: Collection[str]) -> State:
        """Return the state after the names of a loaded one were compared with those of all tensors.

        Raises EncodeError if they do not fit.
        """
        if self.loaded is None or self.loaded.names_fit:
            return self
        kept = self._without(self.loaded.find_unnamed(self._names(), names))
        return replace(kept, loaded=self.loaded.with_names())

    def take_rank(self, rank: int) -> State:
        """Return the state of a rank that has this number from now on.

        A loaded state of another rank stays as it is, so that the first step reports it.
        """
        if self.loaded is None:
            return self if self.rank in (UNKNOWN_RANK, rank) else replace(self, rank=rank)
        if self.loaded.rank not in (UNKNOWN_RANK, rank):
            return self
        return replace(self, rank=rank, loaded=replace(self.loaded, rank=UNKNOWN_RANK))

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


def copy_of(arrays: Mapping[str, Array], name: str) -> Array | None:
    """Return a copy of a named array on its device, or None if there is none."""
    array = arrays.get(name)
    return None if array is None else array.copy()
