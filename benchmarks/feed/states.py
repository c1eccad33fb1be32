"""Where the run begins: masters and Adam's moments after pretraining and some steps of GRPO, kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.store import ResultStore
from benchmarks.feed.settings import Settings
from benchmarks.patches import training
from wirecodec.arrays import Array

__all__ = ["Start", "load_start", "prepare_start"]

CACHE = Path(__file__).parent / ".states"
SOURCES = (Path(training.__file__),)


@dataclass(frozen=True)
class Start:
    """State of a training.

    Attributes:
        masters: {name: float32 array}.
        moments: of the optimizer.
    """

    masters: dict[str, Array]
    moments: dict[str, Any]

    def go_on(self, settings: Settings) -> training.Reinforcement:
        """Return the training, which goes on from here."""
        return training.Reinforcement(self.masters, settings.plan, settings.rate, self.moments)


def prepare_start(settings: Settings, step: Callable[[str], None], cache: Path = CACHE) -> None:
    """Train to the start of the run, if the folder does not have it.

    Args:
        settings: of the run.
        step: called with a description of each step of training.
        cache: folder that keeps the state.
    """
    store, name = _open(settings, cache)
    if name in store:
        return
    masters = training.pretrain(settings.plan, step)
    run = training.Reinforcement(masters, settings.plan, settings.rate)
    for number in range(settings.settled):
        step(f"GRPO, step {number}: reward {run.step():.2f}")
    store.save(name, Start(run.masters(), run.moments()))


def load_start(settings: Settings, cache: Path = CACHE) -> Start:
    """Return what ``prepare_start`` has made."""
    store, name = _open(settings, cache)
    found: Start = store[name]
    return found


def _open(settings: Settings, cache: Path) -> tuple[ResultStore, str]:
    """Return the store of the states, and the name of one."""
    return ResultStore(repr((settings.plan, settings.rate, settings.settled)), cache, SOURCES), "start"
