"""What the processes of a run write down, all by the same clock."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Published", "Served"]


@dataclass(frozen=True)
class Published:
    """Version as its trainer sees it.

    Attributes:
        method: of the run.
        version: its number; 0 is the state before the first step.
        ended: seconds until the step ended that made it, since the state before the first one.
        published: until all readers could fetch it.
        bytes: of its objects.
    """

    method: str
    version: int
    ended: float
    published: float
    bytes: int


@dataclass(frozen=True)
class Served:
    """Update as a rollout sees it.

    Attributes:
        method: of the run.
        rollout: number of the rollout.
        version: that it has from here on.
        at: seconds, by the clock of ``Published``, until the model had it.
        pause: seconds for which sampling waited.
        bytes, requests: since the update before, with looks that found nothing new.
        tokens: that were sampled since then.
    """

    method: str
    rollout: int
    version: int
    at: float
    pause: float
    bytes: int
    requests: int
    tokens: int
