"""System and Exchange: the interface of everything that averages gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from benchmarks.training.tasks.task import Settings

__all__ = ["WARM_UP", "Exchange", "System", "Tensors"]

WARM_UP = 0.05
"""Fraction of the steps of a paper's warm-up; papers have 4 or 5 epochs of 100 to 300."""

Tensors = dict[str, Any]
"""{name: torch tensor} of one worker."""


class Exchange(Protocol):
    """Average of one step's gradients, with the state of all workers."""

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean that all workers apply, and the bytes that all workers contributed together."""
        ...


@dataclass(frozen=True)
class System(ABC):
    """System with its own settings, which are fields of the subclass. They are part of a run's key.

    Attributes:
        name: in tables.
        group: heading in tables.
    """

    name: str
    group: str

    def optimizer_settings(self, settings: Settings) -> Settings:
        """Return the optimizer's settings after the exchange, without momentum if the system has its own."""
        return settings

    def count_working(self, workers: int) -> int:
        """Return how many of the workers compute gradients."""
        return workers

    def describe_settings(self, settings: Settings) -> str:
        """Return a point of the grid as a table shows it, with the optimizers that it selects."""
        return str(settings)

    def describe_fields(self) -> str:
        """Return the class and the fields that differ from their defaults, for a run's key."""
        found = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return (
            f"{type(self).__name__}({', '.join(f'{name}={x!r}' for name, x, usual in found if x != usual)})"
        )

    @abstractmethod
    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange with fresh state.

        Args:
            workers: number of workers.
            settings: the point of the grid.
            steps: of the run, for schedules.
        """
