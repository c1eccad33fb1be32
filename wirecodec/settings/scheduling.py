"""Scheme of a tensor at a step of a schedule, and checks of schedules."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any

from wirecodec.errors import EncodeError
from wirecodec.select.budget.selector import Budget
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.settings.schedule import Diminishing, Follow, Schedule, Steps, WarmUp, schedule_string
from wirecodec.settings.scheme import WHOLE, Scheme

_RAW_BITS = 32
"""Bits of an element, of which a budget's ratio is the fraction."""


def check_schedule(schedule: Any, schemes: Iterable[Scheme]) -> Schedule | None:
    """Return a schedule; raise EncodeError if it cannot be called, or no scheme has a ratio to change."""
    if schedule is None:
        return None
    if not callable(schedule):
        raise EncodeError(
            f"schedule is {schedule!r}; it must be wc.WarmUp(steps), wc.Steps({{step: ratio}}), another"
            " schedule, or a function (step, ratio) -> ratio"
        )
    _check_arguments(schedule)
    schemes = list(schemes)
    if not any(own_ratio(scheme) is not None for scheme in schemes) and not (
        isinstance(schedule, WarmUp) and schedule.hold
    ):
        raise EncodeError(
            f"schedule is {schedule_text(schedule)}, and no scheme has a ratio that it could change:"
            f" {', '.join(map(str, schemes))}; use a selector with a ratio, as in topk(0.01), a budget, or no"
            " schedule"
        )
    checked: Schedule = schedule
    return checked


def _check_arguments(schedule: Any) -> None:
    """Raise EncodeError for a function that does not take step and ratio."""
    try:
        signature = inspect.signature(schedule)
    except (TypeError, ValueError):  # a builtin without one
        return
    try:
        signature.bind(0, 0.5)
    except TypeError:
        raise EncodeError(
            f"the schedule takes {signature}; it must take the step and the tensor's own ratio, as in"
            " lambda step, ratio: ratio"
        ) from None


def own_ratio(scheme: Scheme) -> float | None:
    """Return the ratio of a scheme's selector, or None.

    For adacomp, it is one element per bin. For budget, it is the part of the 32 bits of a float32 element.
    """
    if isinstance(scheme.select, AdaComp):
        return 1 / scheme.select.bin
    if isinstance(scheme.select, Budget):
        return min(scheme.select.bits / _RAW_BITS, 1.0)
    ratio = getattr(scheme.select, "ratio", None)
    return None if ratio is None else float(ratio)


def scheme_at(scheme: Scheme, schedule: Schedule | None, step: int) -> Scheme:
    """Return a scheme at a step, with the schedule's ratio; at ratio 1, the tensor is sent whole, losslessly.

    adacomp has no ratio. Its factor is multiplied by (the schedule's ratio · bin), and is at least 1. The
    bits of budget become 32 times the ratio.

    Raises EncodeError if the schedule's ratio is out of range.
    """
    if schedule is None:
        return scheme
    if isinstance(schedule, WarmUp) and schedule.sends_raw(step):
        return scheme if scheme.sends_all else WHOLE
    own, selector = own_ratio(scheme), scheme.select
    if own is None:
        return scheme
    ratio = ratio_at(schedule, step, own)
    if ratio == own:
        return scheme
    if ratio == 1:
        return WHOLE
    if isinstance(selector, AdaComp):
        factor = max(1.0, selector.factor * ratio / own)
        return dataclasses.replace(scheme, select=dataclasses.replace(selector, factor=factor))
    if isinstance(selector, Budget):
        return dataclasses.replace(scheme, select=Budget(_RAW_BITS * ratio))
    changed: Any = selector
    return dataclasses.replace(scheme, select=dataclasses.replace(changed, ratio=ratio))


def ratio_at(schedule: Schedule, step: int, own: float) -> float:
    """Return the schedule's ratio for an own ratio. Raises EncodeError if it is out of range."""
    ratio = float(schedule(step, own))
    if not 0 < ratio <= 1:
        raise EncodeError(
            f"ratio is {ratio!r} at step {step} of the schedule; it must be above 0 and at most 1"
        )
    return ratio


def schedule_text(schedule: Any) -> str:
    """Format a schedule for agreement between ranks: equal for equal schedules, in all steps."""
    if isinstance(schedule, Follow):
        return f"follow(theta={schedule.theta!r}, lipschitz={schedule.lipschitz!r})"
    if isinstance(schedule, WarmUp | Steps | Diminishing):
        return schedule_string(schedule)
    return getattr(schedule, "__qualname__", type(schedule).__name__)


def restore_schedule(saved: Schedule | None, own: Schedule | None) -> Schedule | None:
    """Return the schedule after a state is loaded: the saved one, or the Compressor's own if there is none.

    A Follow keeps the function that returns the learning rate.
    """
    if isinstance(saved, Follow) and isinstance(own, Follow) and callable(own.learning_rate):
        return dataclasses.replace(saved, learning_rate=own.learning_rate)
    return own if saved is None else saved
