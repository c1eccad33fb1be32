"""Schedules: density over steps, for the selectors that keep a ratio.

A schedule is a function step -> density. ``WarmUp`` starts dense and tightens, as DGC and ScaleCom do in
their first epochs; ``Diminishing`` drops less and less as the learning rate falls (FFT paper, Theorem 3.5).
They have string forms, by which a Compressor saves them with its state; any function works too,
but is not saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion
from wirecodec.scheme import call_string, parse_call
from wirecodec.validation import as_integer, as_real, settle

__all__ = ["Diminishing", "Schedule", "WarmUp", "parse_schedule", "schedule_string"]

Schedule: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class WarmUp:
    """From ``start`` to ``density`` over the first ``steps``.

    Geometrically, as DGC does; or, with ``hold``, staying at ``start`` until they are over, as ScaleCom does.
    """

    name: ClassVar[str] = "warm-up"
    density: float
    steps: int
    start: float = 1.0
    hold: bool = False

    def __post_init__(self) -> None:
        settle(
            self,
            density=as_real(self.density, "warm-up: density"),
            steps=as_integer(self.steps, "warm-up: steps"),
            start=as_real(self.start, "warm-up: start"),
        )
        if not (0 < self.density <= 1 and 0 < self.start <= 1 and self.steps >= 1):
            raise EncodeError(
                f"warm-up: density {self.density!r}, steps {self.steps!r}, start {self.start!r}"
            )

    def __call__(self, step: int) -> float:
        """The density of a step, counted from 0."""
        if step >= self.steps:
            return self.density
        if self.hold:
            return self.start
        return self.start * math.pow(self.density / self.start, step / self.steps)


@dataclass(frozen=True)
class Diminishing:
    """Drop ever fewer elements as the learning rate falls (FFT paper, Theorem 3.5).

    The share that is dropped is θ_t = min(theta, √(lipschitz · η_t)), with the learning rate
    η_t = rate / (1 + step)^decay; the density is 1 - θ_t.
    """

    name: ClassVar[str] = "diminishing"
    theta: float
    rate: float
    lipschitz: float = 1.0
    decay: float = 0.5

    def __post_init__(self) -> None:
        settle(self, **{name: as_real(value, f"diminishing: {name}") for name, value in vars(self).items()})
        if not (0 <= self.theta < 1 and self.rate > 0 and self.lipschitz > 0 and self.decay >= 0):
            raise EncodeError(
                f"diminishing: theta {self.theta!r}, rate {self.rate!r}, "
                f"lipschitz {self.lipschitz!r}, decay {self.decay!r}"
            )

    def __call__(self, step: int) -> float:
        """The density of a step, counted from 0."""
        return 1 - min(self.theta, math.sqrt(self.lipschitz * self.rate / math.pow(1 + step, self.decay)))


_KNOWN = {cls.name: cls for cls in (WarmUp, Diminishing)}


def schedule_string(schedule: Schedule | None) -> str:
    """The string form of a schedule, "" for none and for any other function."""
    return call_string(schedule) if isinstance(schedule, WarmUp | Diminishing) else ""


def parse_schedule(text: str) -> Schedule:
    """The schedule that ``text`` writes."""

    def find(name: str) -> type:
        if name not in _KNOWN:
            raise EncodeError(f"unknown schedule {name!r}{suggestion(name, _KNOWN)}")
        return _KNOWN[name]

    built: Schedule = parse_call(text, find)
    return built
