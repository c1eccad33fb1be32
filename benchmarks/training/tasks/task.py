"""Task and Problem: the data, model and metric of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Problem", "Settings", "Task"]


@dataclass(frozen=True)
class Settings:
    """Settings of an optimizer: one point of the grid.

    Attributes:
        rate: highest learning rate.
        momentum: of SGD, or beta1 of Adam.
        beta2: of Adam; 0 for SGD.
    """

    rate: float
    momentum: float
    beta2: float = 0.0

    def __str__(self) -> str:
        """Return the settings as a table shows them."""
        betas = f", beta2 {self.beta2:g}" if self.beta2 else ""
        return f"rate {self.rate:g}, momentum {self.momentum:g}{betas}"


class Problem(ABC):
    """Model with its data, for one seed.

    Attributes:
        model: a torch module; its parameters are trained.
    """

    model: Any

    @abstractmethod
    def loss(self, step: int, worker: int) -> Any:
        """Return the training loss of a worker's batch of a step, a torch scalar."""

    @abstractmethod
    def evaluate(self, split: str) -> float:
        """Return the metric on "validation" or "test"."""


@dataclass(frozen=True)
class Task:
    """Model, data, optimizer and metric.

    Attributes:
        name: of the task.
        about: description for the page.
        metric: name of the metric.
        higher_is_better: of the metric.
        optimizer: "adam", "adamw" or "sgd".
        steps: steps of a run.
        warm_up: steps in which the rate rises from 0; it then falls as a cosine to 5 %.
        clip: largest norm of a worker's gradient, or None.
        grid: the settings that every system tries.
        build: makes the Problem of a seed.
        digest: text that changes when the data does.
        systems: names of the only systems that this task is for; empty for all.
        workers: number of workers.
    """

    name: str
    about: str
    metric: str
    higher_is_better: bool
    optimizer: str
    steps: int
    warm_up: int
    clip: float | None
    grid: tuple[Settings, ...]
    build: Callable[[int], Problem]
    digest: Callable[[], str]
    systems: tuple[str, ...] = ()
    workers: int = 4

    def includes(self, system: str) -> bool:
        """Return whether the task is for a system, by its name."""
        return not self.systems or system in self.systems
