"""A controller of SIDCo's stages that settles, for ``mode="adaptive"``.

The paper's controller changes the number of stages alone. Often no number keeps about k elements, and it
alternates between two. Here the stages also have a correction c: they aim at c · k elements.

- Without a state, ``begin`` tries 1 ... M_max stages on the tensor itself and takes the first whose count is
  within the bounds. If none is, the best one is taken, and c is corrected at most ``_MAX_CORRECTIONS`` times.
- If the ratio has changed, as in a warm-up, ``begin`` is called again.
- With a state, the number of stages stays. If the mean of k̂/k over a window is out of bounds, c is divided by
  mean^gain. The gain halves if the error changes its sign, because c then went too far; it doubles, up to 1,
  if the error keeps its sign. A step of c is at most a factor of 4.

Pure functions on a frozen value. As a selector's state, it is seven float64.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.papers.sidco.search import ThresholdSearch

_MAX_CORRECTIONS = 6
_MAX_STEP = math.log(4)
_MAX_CORRECTION = 2.0**40
_MIN_GAIN = 2.0**-6


@dataclass(frozen=True)
class Adaptive:
    """State of one tensor's controller.

    Attributes:
        ratio: that the stages were chosen for.
        stages: number of stages.
        correction: c.
        gain: exponent of the next correction, at most 1.
        sign: of the last correction's error; 0 if there was none.
        seen: steps of this window so far.
        total: sum of k̂/k over them.
    """

    ratio: float
    stages: int
    correction: float = 1.0
    gain: float = 1.0
    sign: int = 0
    seen: int = 0
    total: float = 0.0


def begin(
    search: ThresholdSearch, k: int, ratio: float, *, least: int, most: int, bounds: tuple[float, float]
) -> Adaptive:
    """Choose stages and correction for a tensor's first step.

    Args:
        search: of this step's magnitudes.
        k: elements to select.
        ratio: k/n.
        least: the first number of stages to try.
        most: the last one.
        bounds: the smallest and the largest k̂/k to accept.
    """
    best, best_off = least, math.inf
    for stages in range(least, most + 1):
        kept = search.count_after(stages) / k
        if bounds[0] <= kept <= bounds[1]:
            return Adaptive(ratio, stages)
        off = abs(math.log(max(kept, 1 / k)))
        if off < best_off:
            best, best_off, best_kept = stages, off, kept
    control, kept = Adaptive(ratio, best), best_kept
    for _ in range(_MAX_CORRECTIONS):
        control = _correct(control, kept)
        kept = search.count_after(control.stages, control.correction) / k
        if bounds[0] <= kept <= bounds[1]:
            break
    return control


def update(control: Adaptive, kept: float, *, window: int, bounds: tuple[float, float]) -> Adaptive:
    """Return the controller after a step.

    Args:
        control: before the step.
        kept: k̂/k of the step.
        window: steps between two corrections.
        bounds: the smallest and the largest mean of k̂/k without a correction.
    """
    seen, total = control.seen + 1, control.total + kept
    if seen < window:
        return replace(control, seen=seen, total=total)
    if bounds[0] <= total / seen <= bounds[1]:
        return replace(control, seen=0, total=0.0)
    return _correct(control, total / seen)


def _correct(control: Adaptive, kept: float) -> Adaptive:
    off = math.log(kept) if kept > 0 else -math.inf
    sign = 1 if off > 0 else -1
    turn = 1.0 if control.sign == 0 else 2.0 if sign == control.sign else 0.5
    gain = min(max(control.gain * turn, _MIN_GAIN), 1.0)
    step = min(max(gain * off, -_MAX_STEP), _MAX_STEP)
    correction = control.correction * math.exp(-step)
    correction = min(max(correction, 1 / _MAX_CORRECTION), _MAX_CORRECTION)
    return Adaptive(control.ratio, control.stages, correction, gain, sign)


def save(control: Adaptive) -> Array:
    """Return the controller as a selector's state."""
    return np.array(astuple(control), np.float64)


def restore(state: Any) -> Adaptive | None:
    """Return the controller of a selector's state; None if there is none.

    Raises EncodeError if ``state`` is not a controller's state.
    """
    if state is None:
        return None
    numbers = np.asarray(state)
    if numbers.shape != (7,) or numbers.dtype != np.float64:
        raise EncodeError(f"sidco: state is {numbers.dtype} {numbers.shape}; it must be float64 (7,)")
    ratio, stages, correction, gain, sign, seen, total = numbers.tolist()
    if not (
        0 < ratio <= 1
        and 1 <= stages <= 64
        and 0 < correction < math.inf
        and 0 < gain <= 1
        and sign in (-1, 0, 1)
        and 0 <= seen <= 2**53
        and 0 <= total < math.inf
        and stages == int(stages)
        and seen == int(seen)
    ):
        raise EncodeError(f"sidco: state is {numbers.tolist()}; it must be one that a selection returned")
    return Adaptive(ratio, int(stages), correction, gain, int(sign), int(seen), total)
