"""Runs and their results: one small JSON file per run, named by all that determines it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.training.tasks.task import Settings

__all__ = ["FOLDER", "Result", "Run", "find_result", "load_results", "save_result"]

FOLDER = Path(__file__).parent / ".runs"
"""Default folder of results; git ignores it."""
REVISION = 1
"""Raise this number if a change of the harness or of unreleased codecs changes results."""


@dataclass(frozen=True)
class Run:
    """All that determines a result.

    Attributes:
        task, system: names.
        settings: point of the grid.
        seed: of weights and batches.
        steps: number of steps.
        system_text: all fields of the system.
        data: digest of the task's data.
        versions: of Python's libraries that compute.
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
    versions: str
    workers: int = 4
    revision: int = REVISION

    @property
    def key(self) -> str:
        """Return the name of the run's file without its suffix."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.task}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Result:
    """Result of a run.

    Attributes:
        run: the run.
        validation, test: the task's metric; NaN if the run diverged.
        bits: per parameter, worker and step.
        compression_seconds: CPU seconds of the exchange per worker and step.
        seconds: CPU seconds of the run.
        losses: training loss of each step, mean over the workers.
        parameters: number of parameters.
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


def save_result(result: Result, folder: Path) -> Path:
    """Write a result at once, so that an interrupted write leaves no file under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.run.key}.json"
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(asdict(result)))
    draft.replace(path)
    return path


def find_result(run: Run, folder: Path) -> Result | None:
    """Return the result of a run, or None if the run has not ended."""
    path = folder / f"{run.key}.json"
    return _read(path) if path.exists() else None


def load_results(folder: Path) -> list[Result]:
    """Return all results in a folder, in the order of their files' names."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Result:
    fields: dict[str, Any] = json.loads(path.read_text())
    run = fields.pop("run")
    settings = Settings(**run.pop("settings"))
    losses = tuple(fields.pop("losses"))
    return Result(run=Run(settings=settings, **run), losses=losses, **fields)
