"""Runs and their results: one line of JSON per run, in a file per task."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.common.results import RESULTS
from benchmarks.training.tasks.task import Settings

__all__ = ["FOLDER", "Result", "Run", "average_losses", "find_result", "load_results", "save_result"]

FOLDER = RESULTS / "training"
"""Default folder of results. It is part of the repository, so a run need not be repeated elsewhere."""
REVISION = 2
"""Raise this number if a change of the harness or of unreleased codecs changes results."""
POINTS = 120
"""Points of a loss curve; each is the mean of a run's steps in between."""


@dataclass(frozen=True)
class Run:
    """All that determines a result.

    Attributes:
        task, system: names.
        settings: point of the grid.
        seed: of weights and batches.
        steps: number of steps.
        system_text: fields of the system.
        data: digest of the task's data.
        workers: number of workers.
        revision: of the harness.
    """

    task: str
    system: str
    settings: Settings
    seed: int
    steps: int
    system_text: str
    data: str
    workers: int = 4
    revision: int = REVISION

    @property
    def key(self) -> str:
        """Return a digest of all fields."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """Result of a run.

    Attributes:
        run: the run.
        validation, test: the task's metric; NaN if the run diverged.
        bits: per parameter, worker and step.
        compression_seconds: CPU seconds of the exchange per worker and step.
        seconds: CPU seconds of the run.
        losses: training loss, mean over the workers and over 1/120 of the run's steps per point.
        parameters: number of parameters.
        versions: of the libraries that computed it.
        error: why the run ended early, or an empty string.
    """

    run: Run
    validation: float
    test: float
    bits: float
    compression_seconds: float
    seconds: float
    losses: tuple[float, ...]
    parameters: int
    versions: str = ""
    error: str = ""

    @property
    def diverged(self) -> bool:
        """Whether the run ended with numbers that are not finite."""
        return not math.isfinite(self.test)

    @property
    def final_loss(self) -> float:
        """Return the mean training loss of the last twentieth of the steps."""
        last = self.losses[-max(1, len(self.losses) // 20) :]
        return sum(last) / len(last) if last else math.nan


def average_losses(losses: Sequence[float], steps: int) -> tuple[float, ...]:
    """Return the means of consecutive blocks of a loss curve.

    Args:
        losses: of the steps that were taken.
        steps: of the whole run; a block has 1/120 of them, at least one. An incomplete last block is dropped.
    """
    block = max(1, steps // POINTS)
    return tuple(
        round(math.fsum(losses[start : start + block]) / block, 5)
        for start in range(0, len(losses) - block + 1, block)
    )


def save_result(result: Result, folder: Path) -> Path:
    """Append a result to the file of its task, in one write."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.run.task}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")
    return path


def find_result(run: Run, folder: Path) -> Result | None:
    """Return the result of a run, or None if the run has not ended."""
    return load_results(folder, run.task).get(run.key)


def load_results(folder: Path, task: str) -> Mapping[str, Result]:
    """Return all results of a task by the keys of their runs; the last of equal keys counts."""
    path = folder / f"{task}.jsonl"
    return _read(path, path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else {}


@functools.lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int) -> Mapping[str, Result]:
    """Read a file; the time of its last change and its size are part of the cache's key."""
    found = [_parse(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return MappingProxyType({result.run.key: result for result in found})


def _parse(line: str) -> Result:
    fields: dict[str, Any] = json.loads(line)
    run = fields.pop("run")
    settings = Settings(**run.pop("settings"))
    losses = tuple(fields.pop("losses"))
    return Result(run=Run(settings=settings, **run), losses=losses, **fields)
