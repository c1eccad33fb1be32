"""Holder of the current state of one rank, and the base class of objects that have one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from wirecodec.compressor.memory import Memory
from wirecodec.compressor.state import State


class StateHolder:
    """Holder of a rank's state, and of the memory that its steps reuse.

    Attributes:
        state: after the last step. One assignment of it ends a step, so that an interrupt leaves the state
            before the step or the one after it.
        memory: of the steps from this state.
    """

    def __init__(self, state: State | None = None, memory: Memory | None = None) -> None:
        self.state = state or State()
        self.memory = memory or Memory()

    def load(self, state: State) -> None:
        """Replace the state by a loaded one."""
        self.state = state
        self._keep_arrays()

    def share(self) -> StateHolder:
        """Return a holder of the same state, whose arrays neither overwrites."""
        self._keep_arrays()
        return StateHolder(self.state)

    def _keep_arrays(self) -> None:
        """Replace the memory by one that has no array of the state, and the same caches."""
        self.memory = Memory(self.memory.searches, self.memory.thresholds)


class Stateful:
    """Object with a state that its steps replace: a Compressor, a CLTk or a GTopK."""

    _holder: StateHolder

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy, which takes its own steps from the same state."""
        return {**vars(self), "_holder": self._holder.share()}

    @property
    def step(self) -> int:
        """Steps taken so far; of a Compressor, those that were committed."""
        return self._holder.state.step

    def set_step(self, step: int) -> None:
        """Set the number of steps taken, and keep all arrays, to take over another rank's step."""
        self._holder.state = replace(self._holder.state, step=step)

    def require_names(self, names: Collection[str]) -> None:
        """Compare a loaded state with the names of all tensors of the training.

        Args:
            names: of all tensors, also of those without a gradient.

        Raises:
            EncodeError: the state has other names, and it was loaded with ``strict``.
        """
        self._holder.state = self._holder.state.settle_names(names)
