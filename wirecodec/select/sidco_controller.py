"""SIDCo's controller: how many stages the next steps of a tensor take (SIDCo, Algorithm 1, Adapt_Stages).

After every ``window`` steps the mean of k̂/k is looked at. Within the tolerance, nothing changes. Otherwise a
stage is taken away where too much was kept and added where too little was, as in the paper; but where the
move before that made the error grow, or where the number would leave 1 to ⌈log₂ 1/δ⌉, the direction is
reversed for this and the following moves. The paper's rule alone stays at one stage for ever on tails that
are heavier than the distribution's. Errors are |mean k̂/k - 1|, as in the paper's (12).

Pure functions on a frozen value; as a selector's state it is five float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError

__all__ = ["Controller", "max_stages", "restore", "save", "update"]


@dataclass(frozen=True)
class Controller:
    """Where the controller of one tensor stands.

    Attributes:
        stages: for the next step.
        direction: 1 for the paper's, -1 reversed.
        seen: steps of this window.
        total: their sum of k̂/k.
        error: of the window after which the number of stages last moved; infinite since a window without a
            move.
    """

    stages: int
    direction: int = 1
    seen: int = 0
    total: float = 0.0
    error: float = math.inf


def max_stages(ratio: float) -> int:
    """⌈log₂ 1/δ⌉, at least 1."""
    return max(1, math.ceil(-math.log2(ratio)))


def update(control: Controller, kept: float, ratio: float, *, window: int, tolerance: float) -> Controller:
    """After a step that kept ``kept`` times k."""
    seen, total = control.seen + 1, control.total + kept
    if seen < window:
        return replace(control, seen=seen, total=total)
    off = total / seen - 1
    if abs(off) <= tolerance:
        return Controller(control.stages, control.direction)
    most = max_stages(ratio)
    direction = -control.direction if abs(off) > control.error else control.direction
    move = -direction if off > 0 else direction
    if not 1 <= control.stages + move <= most:
        direction, move = -direction, -move
    return Controller(min(max(control.stages + move, 1), most), direction, error=abs(off))


def save(control: Controller) -> Array:
    """As a selector's state."""
    return np.array(
        [control.stages, control.direction, control.seen, control.total, control.error], np.float64
    )


def restore(state: Any, stages: int) -> Controller:
    """From a selector's state, or, of none, beginning with ``stages``; EncodeError for what is no state."""
    if state is None:
        return Controller(stages)
    found = np.asarray(state)
    if found.shape != (5,) or found.dtype != np.float64:
        raise EncodeError(f"sidco: the state is {found.dtype} of shape {found.shape}, not five float64")
    count, direction, seen, total, error = found.tolist()
    if not (
        1 <= count <= 2**20
        and abs(direction) == 1
        and 0 <= seen <= 2**53
        and 0 <= total < math.inf
        and error >= 0
        and count == int(count)
        and seen == int(seen)
    ):
        raise EncodeError(f"sidco: not a state: {found.tolist()}")
    return Controller(int(count), int(direction), int(seen), total, error)
