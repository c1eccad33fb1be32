"""Plan of the measurements: one job per model, number of ranks and link, and the small calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.step.models import MODELS
from benchmarks.step.rows import DELAY, DELAY_SECONDS, LINKS, LOOPBACK
from benchmarks.step.systems import BUDGET, COMPUTING, DEFAULT, OFF, OURS, PLAIN, SYSTEMS

__all__ = ["SMALL", "Effort", "Job", "list_jobs"]

SMALL = "small calls"
"""Name of the measurement that has no job."""


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: of each system.
        seconds: approximate, of the steps of a system in a round.
        max_steps: of a system in a round.
        stage_steps: from which stages are averaged.
    """

    rounds: int = 5
    seconds: float = 0.2
    max_steps: int = 10
    stage_steps: int = 5


QUICK = Effort(rounds=3, stage_steps=3)
CROWDED = Effort(rounds=3)
CROWDED_SYSTEMS = (COMPUTING, PLAIN, DEFAULT, OFF, BUDGET)
"""Of jobs with more ranks than two, whose steps take longer."""


@dataclass(frozen=True)
class Job:
    """One launch of ranks.

    Attributes:
        model: of ``MODELS``.
        ranks: their number.
        link: of ``LINKS``.
        effort: how long to measure.
        systems: those that are measured.
    """

    model: str
    ranks: int
    link: str
    effort: Effort = Effort()
    systems: tuple[str, ...] = SYSTEMS

    @property
    def name(self) -> str:
        """Return the model, the number of ranks and the link as text."""
        return f"{self.model}, {self.ranks} ranks, {self.link}"

    @property
    def plan(self) -> dict[str, Any]:
        """Return the plan for the ranks; the launcher adds ``counter``, the interface that counts bytes."""
        return {
            "model": self.model,
            "ranks": self.ranks,
            "link": self.link,
            "systems": self.systems,
            "delay": DELAY_SECONDS if self.link == DELAY else 0.0,
            "memory": self.link == LOOPBACK and self.ranks == 2,
            **asdict(self.effort),
        }


def list_jobs(*, quick: bool) -> list[Job]:
    """List all jobs.

    Only this library's hook has a communicator that can be delayed. With more than two ranks, a real link
    would delay each of the messages of gloo's all-gather, so those links have two ranks.

    Args:
        quick: True for one model, two ranks and one link.
    """
    if quick:
        return [Job(MODELS[0], 2, LOOPBACK, QUICK)]
    jobs = []
    for model in MODELS:
        for link in LINKS:
            jobs.append(Job(model, 2, link, systems=(COMPUTING, *OURS) if link == DELAY else SYSTEMS))
        for link in LINKS:
            if link != DELAY:
                jobs.append(Job(model, 4, link, CROWDED, CROWDED_SYSTEMS))
    return jobs
