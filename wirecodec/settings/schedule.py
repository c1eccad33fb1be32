"""Schedules: the ratio of selected elements as a function of the step and of the tensor's own ratio.

A Compressor calls its schedule with its step, from 0, and the ratio of the tensor's selector. A result of 1
sends the tensor whole and losslessly, by ``all | raw-index | raw``. A schedule can be any such function.
Those defined here are frozen dataclasses with a string form, which ``state_dict`` saves; another function is
not saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion
from wirecodec.settings.scheme import call_string, parse_call
from wirecodec.validation import as_flag, as_integer, as_real, set_fields

Schedule: TypeAlias = Callable[[int, float], float]


@dataclass(frozen=True)
class WarmUp:
    """Schedule that moves from a dense start to each tensor's own ratio over the first steps.

    The ratio of step t < steps is start * (own / start)^(t / steps), as in DGC (Lin et al. 2018, section
    3.3). From then on it is the tensor's own. A tensor whose own ratio is above ``start`` keeps it.

    Args:
        steps: length of the warm-up, in steps, 1 or more.
        start: ratio at step 0, above 0 and at most 1. DGC uses 0.25.
        hold: True to stay at ``start`` for all of these steps. With start 1, nothing is compressed, as in
            ScaleCom; this also holds for schemes without a ratio.

    Raises:
        EncodeError: a parameter is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schedule = wc.WarmUp(steps=2)
        >>> [round(schedule(step, 0.01), 3) for step in range(4)]
        [1.0, 0.1, 0.01, 0.01]
    """

    name: ClassVar[str] = "warm-up"
    steps: int
    start: float = 1.0
    hold: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.steps, float) and 0 < self.steps <= 1:
            raise EncodeError(
                f"warm-up: steps is {self.steps!r}; it must be a number of steps. The scheme sets the last"
                " ratio, as in topk(0.01): a warm-up ends at each tensor's own ratio"
            )
        set_fields(
            self,
            steps=as_integer(self.steps, "warm-up: steps"),
            start=as_real(self.start, "warm-up: start"),
            hold=as_flag(self.hold, "warm-up: hold"),
        )
        if not (0 < self.start <= 1 and self.steps >= 1):
            raise EncodeError(
                f"warm-up: start is {self.start!r}, steps is {self.steps!r}; start must be above 0 and at"
                " most 1, steps 1 or more"
            )

    def __call__(self, step: int, ratio: float) -> float:
        """Return the ratio of a step, counted from 0, for a tensor with its own ratio."""
        if step >= self.steps or ratio >= self.start:
            return ratio
        if self.hold:
            return self.start
        return self.start * math.pow(ratio / self.start, step / self.steps)

    def sends_raw(self, step: int) -> bool:
        """Tell whether nothing is compressed in a step, whatever the scheme."""
        return self.hold and self.start == 1 and step < self.steps


@dataclass(frozen=True)
class Steps:
    """Schedule whose value changes at given steps.

    Args:
        values: {step: value}, or the same as text: "0:0.1 3000:0.01".
            Before the first step, each tensor has its own ratio.
        factor: False if values are ratios, from 0 to 1. A value of 0 turns sparsification off, as 1 does: it
            never means that nothing is sent. True if each tensor's own ratio is multiplied by the value, up
            to 1; 0 means the same here.

    Raises:
        EncodeError: a value is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schedule = wc.Steps({0: 0.1, 3000: 0.0})
        >>> schedule(2999, 0.01), schedule(3000, 0.01)
        (0.1, 1.0)
        >>> wc.Steps({0: 10, 500: 1}, factor=True)(20, 0.01)
        0.1
    """

    name: ClassVar[str] = "steps"
    values: Any
    factor: bool = False

    def __post_init__(self) -> None:
        try:
            pairs = (
                self.values.items()
                if isinstance(self.values, Mapping)
                else [pair.split(":") for pair in str(self.values).split()]
            )
            values = {int(step): as_real(float(value), "steps: value") for step, value in pairs}
        except (TypeError, ValueError, AttributeError):
            raise EncodeError(f"steps: values is {self.values!r}; it must be {{step: value}}") from None
        set_fields(self, factor=as_flag(self.factor, "steps: factor"))
        for step, value in values.items():
            if step < 0 or not 0 <= value < math.inf or (not self.factor and value > 1):
                limit = "a number" if self.factor else "at most 1"
                raise EncodeError(
                    f"steps: value is {value!r} at step {step}; it must be 0 or more and {limit}"
                )
        set_fields(self, values=" ".join(f"{step}:{values[step]!r}" for step in sorted(values)))

    def __call__(self, step: int, ratio: float) -> float:
        """Return the ratio of a step, counted from 0, for a tensor with its own ratio."""
        current = None
        for pair in self.values.split():
            first, _, value = pair.partition(":")
            if int(first) <= step:
                current = float(value)
        if current is None:
            return ratio
        if current == 0:
            return 1.0
        return min(1.0, ratio * current) if self.factor else current


@dataclass(frozen=True)
class Diminishing:
    """Schedule that drops fewer elements as a learning rate falls by a power law.

    The ratio of step t is 1 - θ_t with θ_t = min(theta, √(lipschitz · η_t)) and the learning rate
    η_t = rate / (1 + t)^decay (Wang et al. 2020, FFT-based gradient sparsification, Theorem 3.5). The theorem
    needs Σ η_t = ∞ and Σ η_t² < ∞, which is a decay above 0.5 and at most 1. ``Follow`` takes the learning
    rate of an optimizer instead.

    Args:
        theta: largest fraction of elements that is dropped, 0 to below 1; None for 1 - the tensor's ratio.
        rate: learning rate of step 0, above 0.
        lipschitz: Lipschitz constant of the gradient, above 0.
        decay: exponent of the learning rate's decay, 0 or more.

    Raises:
        EncodeError: a parameter is out of range.

    Examples:
        >>> import wirecodec as wc
        >>> schedule = wc.Diminishing(rate=0.25)
        >>> schedule(0, 0.1), schedule(3, 0.1)
        (0.5, 0.75)
    """

    name: ClassVar[str] = "diminishing"
    theta: float | None = None
    rate: float = 1.0
    lipschitz: float = 1.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                set_fields(self, **{name: as_real(value, f"diminishing: {name}")})
        theta = 0.0 if self.theta is None else self.theta
        if not (0 <= theta < 1 and self.rate > 0 and self.lipschitz > 0 and self.decay >= 0):
            raise EncodeError(
                f"diminishing: theta is {self.theta!r}, rate is {self.rate!r}, lipschitz is "
                f"{self.lipschitz!r}, decay is {self.decay!r}; theta must be from 0 to below 1, rate and "
                "lipschitz above 0, decay 0 or more"
            )

    def __call__(self, step: int, ratio: float) -> float:
        """Return the ratio of a step, counted from 0, for a tensor with its own ratio."""
        rate = self.rate / math.pow(1 + step, self.decay)
        return 1 - min(1 - ratio if self.theta is None else self.theta, math.sqrt(self.lipschitz * rate))


@dataclass(frozen=True)
class Follow:
    """Schedule that drops fewer elements as the learning rate of an optimizer falls.

    The ratio is 1 - min(theta, √(lipschitz · learning rate)), as ``Diminishing``, with the rate of this step.
    All ranks must have the same rate.

    A saved state has theta, lipschitz and the last rate. If it is loaded into a Compressor that has a Follow,
    the function of that Follow is kept. Otherwise the saved rate is used.

    Args:
        learning_rate: function without arguments that returns the rate, such as
            ``lambda: optimizer.param_groups[0]["lr"]``; or a number.
        theta: largest fraction of elements that is dropped, 0 to below 1; None for 1 - the tensor's ratio.
        lipschitz: Lipschitz constant of the gradient, above 0.

    Raises:
        EncodeError: a parameter is out of range, or the rate is not a number of 0 or more.

    Source:
        Wang et al., 2020, FFT-based gradient sparsification, Theorem 3.5.

    Examples:
        >>> import wirecodec as wc
        >>> rate = {"lr": 0.25}
        >>> schedule = wc.Follow(lambda: rate["lr"])
        >>> schedule(0, 0.1)
        0.5
    """

    name: ClassVar[str] = "follow"
    learning_rate: Any
    theta: float | None = None
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        if self.theta is not None:
            set_fields(self, theta=as_real(self.theta, "follow: theta"))
        set_fields(self, lipschitz=as_real(self.lipschitz, "follow: lipschitz"))
        if not callable(self.learning_rate):
            set_fields(self, learning_rate=as_real(self.learning_rate, "follow: learning_rate"))
        if not (0 <= (self.theta or 0.0) < 1 and 0 < self.lipschitz < math.inf):
            raise EncodeError(
                f"follow: theta is {self.theta!r}, lipschitz is {self.lipschitz!r}; theta must be from 0 to"
                " below 1, lipschitz above 0"
            )

    @property
    def rate(self) -> float:
        """The learning rate now."""
        given = self.learning_rate() if callable(self.learning_rate) else self.learning_rate
        rate = as_real(given, "follow: the learning rate")
        if not 0 <= rate < math.inf:
            raise EncodeError(f"follow: the learning rate is {rate!r}; it must be 0 or more")
        return rate

    def __call__(self, step: int, ratio: float) -> float:
        """Return the ratio of a step for a tensor with its own ratio."""
        return 1 - min(1 - ratio if self.theta is None else self.theta, math.sqrt(self.lipschitz * self.rate))


_KNOWN = {cls.name: cls for cls in (WarmUp, Steps, Diminishing, Follow)}


def schedule_string(schedule: Any) -> str:
    """Format a schedule as a string; return "" for None and for other functions."""
    if isinstance(schedule, Follow):
        return call_string(Follow(schedule.rate, schedule.theta, schedule.lipschitz))
    return call_string(schedule) if isinstance(schedule, WarmUp | Steps | Diminishing) else ""


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule's string; raise EncodeError if it is not one."""

    def find(name: str) -> type:
        if name not in _KNOWN:
            raise EncodeError(f"unknown schedule {name!r}{suggestion(name, _KNOWN)}")
        return _KNOWN[name]

    built: Schedule = parse_call(text, find)
    return built
