"""Sizes of a run, as all its processes get them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.patches.training import Plan

__all__ = ["QUICK", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Sizes of a run.

    Attributes:
        plan: of the model and its training.
        rate: learning rate.
        settled: steps of GRPO before the run, so that Adam's moments have settled.
        steps: of the run; a version is published after each of them.
        warm_up: first steps that are not measured.
        interval: seconds from the start of a step to that of the next one, at least.
        poll: seconds between two looks for a newer version.
        idle: pause of a rollout after each token, as a multiple of the time that the token took.
        rollouts: number of hosts that follow.
        link: name of their links' rate.
    """

    plan: Plan = field(
        default_factory=lambda: Plan(
            width=512, batch=4, pretraining=40, prompts=2, group=4, completion=8, pretraining_rate=1e-3
        )
    )
    rate: float = 1e-6
    settled: int = 30
    steps: int = 16
    warm_up: int = 2
    interval: float = 4.0
    poll: float = 0.25
    idle: float = 1.0
    rollouts: int = 2
    link: str = "100 Mbit"

    def pack(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def unpack(text: str) -> Settings:
        """Read what ``pack`` has written."""
        fields: dict[str, Any] = json.loads(text)
        return Settings(**fields | {"plan": Plan(**fields["plan"])})


QUICK = Settings(
    Plan(width=64, blocks=2, heads=4, batch=4, pretraining=20, prompts=2, group=8),
    settled=2,
    steps=5,
    warm_up=1,
    interval=0.8,
)
"""Small ones, for a look at the benchmark itself: a minute."""
