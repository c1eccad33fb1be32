"""State of a Compressor: what persists from step to step, per tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wirecodec.arrays import Array

__all__ = ["State"]


@dataclass(frozen=True, eq=False)
class State:
    """State that a step changes; ``commit`` replaces it as a whole."""

    step: int = 0
    residuals: Mapping[str, Array] = field(default_factory=dict)
    selectors: Mapping[str, Array] = field(default_factory=dict)

    def next(self, residuals: Mapping[str, Array], selectors: Mapping[str, Array]) -> State:
        """Return the state of the next step; tensors that were not in this step keep theirs."""
        return State(self.step + 1, {**self.residuals, **residuals}, {**self.selectors, **selectors})
