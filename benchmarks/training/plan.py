"""Runs of the benchmark and their order: the grid with seed 0, then the best settings with more seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.training.runs import Result, Run, find_result
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task

__all__ = ["Plan", "pick_best", "select_by_name"]

T = TypeVar("T", Task, System)


def select_by_name(items: Sequence[T], words: str) -> list[T]:
    """Return the items whose names are given, separated by ";"; part of a name selects all that have it.

    Raises:
        SystemExit: nothing has a name.
    """
    found: dict[T, None] = {}
    for word in filter(None, (word.strip() for word in words.split(";"))):
        exact = [item for item in items if item.name == word]
        matching = exact or [item for item in items if word in item.name]
        if not matching:
            raise SystemExit(
                f"nothing is called {word!r}; there are {'; '.join(item.name for item in items)}"
            )
        found |= dict.fromkeys(matching)
    return [item for item in items if item in found] if words.strip() else list(items)


def pick_best(results: Sequence[Result], *, higher_is_better: bool) -> Result | None:
    """Return the result with the best metric on validation; None if all diverged."""
    found = [result for result in results if not result.diverged]
    sign = -1 if higher_is_better else 1
    return min(found, key=lambda result: sign * result.validation, default=None)


@dataclass(frozen=True)
class Plan:
    """Runs of a benchmark, and their results.

    Attributes:
        folder: of the results.
        dense_seeds, seeds: seeds of dense and of other systems.
        steps: factor of each task's steps.
        tries: points of each task's grid that are tried; 0 for all.
    """

    folder: Path
    dense_seeds: int = 5
    seeds: int = 1
    steps: float = 1.0
    tries: int = 0

    def tune(self, task: Task, system: System) -> list[Run]:
        """Return one run per point of the grid, with seed 0; none if the task is not for the system."""
        if not task.includes(system.name):
            return []
        grid = task.grid[: self.tries] if self.tries else task.grid
        return [self._make(task, system, place, 0) for place in range(len(grid))]

    def repeat(self, task: Task, system: System) -> list[Run]:
        """Return the runs of all seeds at the best settings; empty before the grid is complete."""
        found = self.find(self.tune(task, system))
        if not found or None in found:
            return []
        best = pick_best([x for x in found if x], higher_is_better=task.higher_is_better)
        if best is None:
            return []
        count = self.dense_seeds if system.name == "dense" else self.seeds
        place = task.grid.index(best.run.settings)
        return [self._make(task, system, place, seed) for seed in range(max(1, count))]

    def find(self, runs: Sequence[Run]) -> list[Result | None]:
        """Return the results of runs, or None for those that are missing."""
        return [find_result(run, self.folder) for run in runs]

    def list_missing(self, tasks: Sequence[Task], systems: Sequence[System]) -> list[Run]:
        """Return the runs without result that can start now: grids, then seeds."""
        tuned = [run for task in tasks for system in systems for run in self.tune(task, system)]
        repeated = [run for task in tasks for system in systems for run in self.repeat(task, system)]
        runs = dict.fromkeys((*tuned, *repeated))
        return [run for run in runs if find_result(run, self.folder) is None]

    def _make(self, task: Task, system: System, place: int, seed: int) -> Run:
        return Run(
            task=task.name,
            system=system.name,
            settings=task.grid[place],
            seed=seed,
            steps=max(1, round(task.steps * self.steps)),
            system_text=system.describe_fields(),
            data=task.digest(),
            workers=task.workers,
        )
