"""Checks of a saved state, key by key: ``Compressor`` and ``CLTk`` load theirs through these functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.schedule import Schedule, parse_schedule
from wirecodec.select.base import find_nonfinite
from wirecodec.validation import as_integer

__all__ = ["saved_residual", "saved_schedule", "saved_step", "unmasked"]

MAX_STEP = 2**62
"""Half of what an int64 holds, so that a state which was loaded can be saved for any number of steps."""


def saved_step(state: Mapping[str, Any]) -> int:
    """Return the step of a state; ValueError unless it is an integer from 0 to 2^62."""
    step = as_integer(state["step"], "step")
    if isinstance(state["step"], np.ma.MaskedArray) or not 0 <= step <= MAX_STEP:
        raise ValueError(f"step is {step}; it must be an unmasked integer from 0 to 2^62")
    return step


def saved_schedule(state: Mapping[str, Any]) -> Schedule | None:
    """Return the schedule that a state names, or None; ValueError if its text is none."""
    try:
        text = bytes(np.asarray(unmasked("schedule", state["schedule"]), np.uint8)).decode()
        return parse_schedule(text) if text else None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"schedule: {error}") from None


def saved_residual(key: str, x: Any) -> Array:
    """Return a residual, copied and flat; ValueError names ``key`` unless it is finite float32 or float64."""
    found = unmasked(key, x).reshape(-1)
    if found.dtype not in (np.float32, np.float64):
        raise ValueError(f"{key} is {found.dtype}; a residual is float32 or float64")
    if (at := find_nonfinite(read_only(found))) >= 0:
        raise ValueError(f"{key}: element {at} is {float(found[at])}; a residual is finite")
    return found


def unmasked(key: str, x: Any) -> Array:
    """Return a copy as an array; ValueError names ``key`` if it is masked."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"{key} is a masked array; a state has none")
    return np.array(x)
