"""SIDCo's controller of the number of stages (SIDCo, Algorithm 1, Adapt_Stages).

After every ``window`` steps the mean of k̂/k is compared with 1. From 1 - ε_L to 1 + ε_H nothing changes.
Otherwise one stage is removed if too much was kept, or added if too little was, as in the paper. The
direction is reversed, for this and later moves, in two cases: the previous move increased the error, or the
number would leave 1 ... M_max. The paper's rule alone stays at one stage on tails heavier than the
distribution's. The error is |mean k̂/k - 1|, as in equation 12. M_max is ⌈log₂ 1/δ⌉ by default; the paper
gives no value.

The controller need not settle: if no number of stages keeps about k, it alternates between two of them.
``sidco_adaptive`` is one that settles.

Pure functions on a frozen value. As a selector's state, it is five float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError


@dataclass(frozen=True)
class Controller:
    """State of one tensor's controller.

    Attributes:
        stages: for the next step.
        direction: 1 for the paper's direction, -1 if reversed.
        seen: steps of this window so far.
        total: sum of k̂/k over them.
        error: error at the last change of the number of stages; infinite after a window without a change.
    """

    stages: int
    direction: int = 1
    seen: int = 0
    total: float = 0.0
    error: float = math.inf


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
    off = total / seen - 1
    if bounds[0] <= total / seen <= bounds[1]:
        return Controller(control.stages, control.direction)
    direction = -control.direction if abs(off) > control.error else control.direction
    move = -direction if off > 0 else direction
    if not 1 <= control.stages + move <= most:
        direction, move = -direction, -move
    return Controller(min(max(control.stages + move, 1), most), direction, error=abs(off))


def save(control: Controller) -> Array:
    """Return the controller as a selector's state."""
    return np.array(
        [control.stages, control.direction, control.seen, control.total, control.error], np.float64
    )


def restore(state: Any, stages: int) -> Controller:
    """Return the controller of a selector's state, or a new one with ``stages`` stages if there is none.

    Raises EncodeError if ``state`` is not a controller's state.
    """
    if state is None:
        return Controller(stages)
    numbers = np.asarray(state)
    if numbers.shape != (5,) or numbers.dtype != np.float64:
        raise EncodeError(f"sidco: state is {numbers.dtype} {numbers.shape}; it must be float64 (5,)")
    count, direction, seen, total, error = numbers.tolist()
    if not (
        1 <= count <= 2**20
        and abs(direction) == 1
        and 0 <= seen <= 2**53
        and 0 <= total < math.inf
        and error >= 0
        and count == int(count)
        and seen == int(seen)
    ):
        raise EncodeError(f"sidco: state is {numbers.tolist()}; it must be one that a selection returned")
    return Controller(int(count), int(direction), int(seen), total, error)
