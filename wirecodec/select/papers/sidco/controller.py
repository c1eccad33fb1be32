"""SIDCo's controller of the number of stages (SIDCo, Algorithm 1, Adapt_Stages, as printed).

After every ``window`` steps the mean of k̂/k is compared with 1. Above 1 + ε_H one stage is removed, below
1 - ε_L one is added, and the number stays within 1 ... M_max. M_max is ⌈log₂ 1/δ⌉ by default; the paper gives
no value.

The controller stays at one stage if that keeps too much, as on tails heavier than the distribution's. The
paper's appendix E.1 describes the opposite: one stage keeps too much, and more stages follow. If no number of
stages keeps about k, the controller alternates between two. ``sidco_adaptive`` has neither property.

Pure functions on a frozen value. As a selector's state, it is three float64.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError

_OLD = [0, 2, 3]
"""Places of the three numbers in a state of version 0.1.0, which had a direction and an error, too."""


@dataclass(frozen=True)
class Controller:
    """State of one tensor's controller.

    Attributes:
        stages: for the next step.
        seen: steps of this window so far.
        total: sum of k̂/k over them.
    """

    stages: int
    seen: int = 0
    total: float = 0.0


def max_stages(ratio: float) -> int:
    """Return max(1, ⌈log₂ 1/ratio⌉)."""
    return max(1, math.ceil(-math.log2(ratio)))


def update(
    control: Controller, kept: float, *, most: int, window: int, bounds: tuple[float, float]
) -> Controller:
    """Return the controller after a step.

    Args:
        control: before the step.
        kept: k̂/k of the step.
        most: the largest number of stages, M_max.
        window: steps between two changes, Q.
        bounds: the smallest and the largest mean of k̂/k without a change, 1 - ε_L and 1 + ε_H.
    """
    seen, total = control.seen + 1, control.total + kept
    if seen < window:
        return replace(control, seen=seen, total=total)
    move = (total / seen < bounds[0]) - (total / seen > bounds[1])
    return Controller(min(max(control.stages + move, 1), most))


def save(control: Controller) -> Array:
    """Return the controller as a selector's state."""
    return np.array(astuple(control), np.float64)


def restore(state: Any, stages: int) -> Controller:
    """Return the controller of a selector's state, or a new one with ``stages`` stages if there is none.

    Raises EncodeError if ``state`` is not a controller's state.
    """
    if state is None:
        return Controller(stages)
    numbers = np.asarray(state)
    if numbers.shape == (5,) and numbers.dtype == np.float64:
        numbers = numbers[_OLD]
    if numbers.shape != (3,) or numbers.dtype != np.float64:
        raise EncodeError(f"sidco: state is {numbers.dtype} {numbers.shape}; it must be float64 (3,)")
    count, seen, total = numbers.tolist()
    if not (
        1 <= count <= 2**20
        and 0 <= seen <= 2**53
        and 0 <= total < math.inf
        and count == int(count)
        and seen == int(seen)
    ):
        raise EncodeError(f"sidco: state is {numbers.tolist()}; it must be one that a selection returned")
    return Controller(int(count), int(seen), total)
