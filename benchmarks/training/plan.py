"""Runs of the benchmark and their order: the grid with seed 0, then the best settings with more seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.training.runs import Result, Run, find_result
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task

__all__ = ["NEAR", "Plan", "pick_best"]

_BEFORE = {
    "top-k 0.1 % as published": ("sidco",),
    "FFT, 90 % left out": ("FFT, 85 % left out", "FFT, 90 % left out, then none"),
    "CLT-k 1 %, beta 1": ("CLT-k by FLOPs", "CLT-k 47x"),
    "local updates every 24, 0.035 bits per step, inner momentum 0.5": (
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5",
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5, alpha 0.5",
    ),
    "dense": (
        *("qsgd-3-bits", "terngrad-noclip", "one worker alone"),
        *("deepreduce-sparse", "skcompress", "deepreduce-qsgd-bf-p0"),
    ),
}
_CONTROLS = ("images-2-workers", "images-8-workers", "images-16-workers", "images-large")
NEAR = {("", name): other for other, names in _BEFORE.items() for name in names} | {
    (task, "top-k 1 % as published"): "CLT-k 1 %, beta 1" for task in _CONTROLS
}
"""{(task or "" for all, system): another system}: only its best point and the rates next to it are tried."""


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
        near: {(task, or "" for all; system): another system}, whose best point and the rates next to it are
            the only ones that are tried.
    """

    folder: Path
    dense_seeds: int = 5
    seeds: int = 1
    steps: float = 1.0
    tries: int = 0
    near: Mapping[tuple[str, str], System] = field(default_factory=dict)

    def tune(self, task: Task, system: System) -> list[Run]:
        """Return one run per point of the grid, with seed 0; none if the task is not for the system."""
        if not task.includes(system.name):
            return []
        places = list(range(self.tries or len(task.grid)))
        if other := self.near.get((task.name, system.name), self.near.get(("", system.name))):
            places = self._find_neighbours(task, other)
        return [self._make(task, system, place, 0) for place in places]

    def _find_neighbours(self, task: Task, other: System) -> list[int]:
        """Return the places of a system's best point and of the next rates, or none before it is known."""
        if not (best := self.repeat(task, other)):
            return []
        at = best[0].settings
        same = sorted((s for s in task.grid if replace(s, rate=at.rate) == at), key=lambda s: s.rate)
        middle = same.index(at)
        return [task.grid.index(settings) for settings in same[max(0, middle - 1) : middle + 2]]

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

    def list_missing(self, cells: Sequence[tuple[Task, System]]) -> list[Run]:
        """Return the runs without result of some tasks and systems that can start now, grids before seeds."""
        tuned = [self.tune(*cell) for cell in cells]
        repeated = [self.repeat(*cell) for cell in cells]
        runs = dict.fromkeys(run for group in (*tuned, *repeated) for run in group)
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
