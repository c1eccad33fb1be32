"""Schedules: density over steps, for selectors with a ratio.

A schedule is a function of the step, counted from 0, that returns the density. ``WarmUp`` starts dense, as
DGC and ScaleCom do in their first epochs. ``Diminishing`` drops fewer elements as the learning rate falls
(FFT paper, Theorem 3.5). Both have a string form, which a Compressor saves with its state. Any other function
works, too, but is not saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion
from wirecodec.settings.scheme import call_string, parse_call
from wirecodec.validation import as_integer, as_real, set_fields

__all__ = ["Diminishing", "Schedule", "WarmUp", "parse_schedule", "schedule_string"]

Schedule: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class WarmUp:
    """Schedule that moves from a dense start to the final density over the first steps.

    The density of step t < steps is start * (density / start)^(t / steps), as in DGC (Lin et al. 2018,
    section 3.3).

    Args:
        density: final fraction of elements, above 0 and at most 1.
        steps: length of the warm-up, in steps, 1 or more.
        start: fraction of elements at step 0, above 0 and at most 1.
        hold: True to stay at ``start`` for all of these steps, as in ScaleCom.

    Raises:
        EncodeError: a parameter is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schedule = wc.WarmUp(density=0.01, steps=2)
        >>> [round(schedule(step), 3) for step in range(4)]
        [1.0, 0.1, 0.01, 0.01]
    """

    name: ClassVar[str] = "warm-up"
    density: float
    steps: int
    start: float = 1.0
    hold: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            density=as_real(self.density, "warm-up: density"),
            steps=as_integer(self.steps, "warm-up: steps"),
            start=as_real(self.start, "warm-up: start"),
        )
        if not (0 < self.density <= 1 and 0 < self.start <= 1 and self.steps >= 1):
            raise EncodeError(
                f"warm-up: density is {self.density!r}, start is {self.start!r}, steps is {self.steps!r}; "
                "densities must be above 0 and at most 1, steps 1 or more"
            )

    def __call__(self, step: int) -> float:
        """Return the density of a step, counted from 0."""
        if step >= self.steps:
            return self.density
        if self.hold:
            return self.start
        return self.start * math.pow(self.density / self.start, step / self.steps)


@dataclass(frozen=True)
class Diminishing:
    """Schedule that drops fewer elements as the learning rate falls.

    The density of step t is 1 - θ_t with θ_t = min(theta, √(lipschitz · η_t)) and the learning rate
    η_t = rate / (1 + t)^decay (Wang et al. 2020, FFT-based gradient sparsification, Theorem 3.5).

    Args:
        theta: largest fraction of elements that is dropped, 0 to below 1.
        rate: learning rate of step 0, above 0.
        lipschitz: Lipschitz constant of the gradient, above 0.
        decay: exponent of the learning rate's decay, 0 or more.

    Raises:
        EncodeError: a parameter is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schedule = wc.Diminishing(theta=0.9, rate=0.25)
        >>> schedule(0), schedule(15)
        (0.5, 0.75)
    """

    name: ClassVar[str] = "diminishing"
    theta: float
    rate: float
    lipschitz: float = 1.0
    decay: float = 0.5

    def __post_init__(self) -> None:
        set_fields(
            self, **{name: as_real(value, f"diminishing: {name}") for name, value in vars(self).items()}
        )
        if not (0 <= self.theta < 1 and self.rate > 0 and self.lipschitz > 0 and self.decay >= 0):
            raise EncodeError(
                f"diminishing: theta is {self.theta!r}, rate is {self.rate!r}, lipschitz is "
                f"{self.lipschitz!r}, decay is {self.decay!r}; theta must be from 0 to below 1, rate and "
                "lipschitz above 0, decay 0 or more"
            )

    def __call__(self, step: int) -> float:
        """Return the density of a step, counted from 0."""
        return 1 - min(self.theta, math.sqrt(self.lipschitz * self.rate / math.pow(1 + step, self.decay)))


_KNOWN = {cls.name: cls for cls in (WarmUp, Diminishing)}


def schedule_string(schedule: Schedule | None) -> str:
    """Format a schedule as a string; return "" for None and for other functions."""
    return call_string(schedule) if isinstance(schedule, WarmUp | Diminishing) else ""


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule's string; raise EncodeError if it is not one."""

    def find(name: str) -> type:
        if name not in _KNOWN:
            raise EncodeError(f"unknown schedule {name!r}{suggestion(name, _KNOWN)}")
        return _KNOWN[name]

    built: Schedule = parse_call(text, find)
    return built
