"""A training of the tests, whose versions are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import collectives as co

State = dict[str, Any]


def copy_of(state: State) -> State:
    """Copy a state."""
    return {name: x.copy() for name, x in state.items()}


def bits_of(state: State) -> dict[str, tuple[Any, ...]]:
    """Return the names, types, shapes and bits of a state."""
    return {name: (x.dtype, x.shape, x.tobytes()) for name, x in state.items()}


@dataclass
class Training:
    """Weights that change from step to step.

    Attributes:
        state: the weights.
        kept: bits of the state by the number of the version.
    """

    state: State
    kept: dict[int, dict[str, tuple[Any, ...]]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def step(self) -> State:
        """Change one weight in 50 by a unit in the last place, and return the state."""
        for x in self.state.values():
            bits = x.reshape(-1).view(f"u{x.dtype.itemsize}")
            at = self.rng.choice(bits.size, max(1, bits.size // 50), replace=False)
            bits[at] += 1
        return self.state

    def publish(self, publisher: Any) -> int:
        """Publish the state, and keep its bits."""
        version: int = publisher.publish(self.state)
        assert self.kept.setdefault(version, bits_of(self.state)) == bits_of(self.state)
        return version

    def version_of(self, state: State) -> int | None:
        """Return the number of the version whose bits a state has; None if it has those of none."""
        bits = bits_of(state)
        return next((number for number, kept in self.kept.items() if kept == bits), None)


def start_training() -> Training:
    """Start a training of a few small tensors."""
    rng = np.random.default_rng(3)
    return Training(
        {
            "embedding": rng.normal(0, 0.02, (64, 40)).astype(ml_dtypes.bfloat16),
            "layer.weight": rng.normal(0, 0.02, (48, 30)).astype(np.float16),
            "layer.bias": rng.normal(0, 0.02, 30).astype(np.float32),
            "scale": np.ones(1, np.float32),
        }
    )


def follow(folder: str, **options: Any) -> co.Subscriber:
    """Return a reader of the run in a folder, which asks often."""
    return co.Subscriber(folder, "run", poll=0.01, **options)
