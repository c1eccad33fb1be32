"""Checks of a saved state by key; ``Compressor`` and ``CLTk`` load their states through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.compressor.loaded import UNKNOWN_RANK, Loaded
from wirecodec.compressor.state import State
from wirecodec.select.base import find_nonfinite
from wirecodec.settings.schedule import Schedule, parse_schedule
from wirecodec.validation import as_integer, as_seed

MAX_STEP = 2**62
"""Half the range of int64, so that a loaded state can count further steps."""


def read_state(
    state: Mapping[str, Any], *, keeps_momentum: bool, strict: bool
) -> tuple[State, int, Schedule | None]:
    """Return the state of a Compressor, its seed, and its schedule or None.

    Args:
        state: from ``Compressor.state_dict``.
        keeps_momentum: whether the Compressor that loads it has a feedback with momentum.
        strict: whether arrays of another rank, or of unknown tensors, are an error at the first step.

    Raises ValueError if a key or its array is not valid; the message names the key.
    """
    known, kinds = {"step", "seed", "schedule"}, ("residual/", "momentum/", "selector/")
    odd = [key for key in state if key not in {*known, "rank"} and not key.startswith(kinds)]
    if odd or not known <= state.keys():
        missing = ", ".join(map(repr, sorted(known - state.keys())))
        raise ValueError(
            f"not a state of a Compressor: {f'unknown keys {odd}' if odd else f'{missing} missing'}"
        )
    seed, step, schedule = as_seed(unmasked("seed", state["seed"])), saved_step(state), saved_schedule(state)
    residuals, momenta = (
        {key[9:]: saved_residual(key, x) for key, x in state.items() if key.startswith(kind)}
        for kind in kinds[:2]
    )
    selectors = {key[9:]: unmasked(key, x) for key, x in state.items() if key.startswith(kinds[2])}
    if momenta and not keeps_momentum:
        raise ValueError(
            f"momentum/{next(iter(momenta))}: this Compressor keeps no momentum; build it with"
            " feedback=wc.MomentumCorrection(), as the one that was saved"
        )
    loaded = Loaded(saved_rank(state), strict)
    return State(step, residuals, selectors, momenta, loaded.rank, loaded), seed, schedule


def saved_rank(state: Mapping[str, Any]) -> int:
    """Return the rank that saved a state, or UNKNOWN_RANK; raise ValueError unless it is an integer."""
    rank = as_integer(unmasked("rank", state.get("rank", UNKNOWN_RANK)), "rank")
    if not UNKNOWN_RANK <= rank <= MAX_STEP:
        raise ValueError(f"rank is {rank}; it must be 0 to 2^62, or {UNKNOWN_RANK} if it is unknown")
    return rank


def saved_step(state: Mapping[str, Any]) -> int:
    """Return the step of a state; raise ValueError unless it is an integer from 0 to 2^62."""
    step = as_integer(state["step"], "step")
    if isinstance(state["step"], np.ma.MaskedArray) or not 0 <= step <= MAX_STEP:
        raise ValueError(f"step is {step}; it must be an unmasked integer from 0 to 2^62")
    return step


def saved_schedule(state: Mapping[str, Any]) -> Schedule | None:
    """Return the schedule of a state, or None; raise ValueError if its text is not a schedule."""
    try:
        text = bytes(np.asarray(unmasked("schedule", state["schedule"]), np.uint8)).decode()
        return parse_schedule(text) if text else None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"schedule: {error}") from None


def saved_residual(key: str, x: Any) -> Array:
    """Return a flat copy of a residual or momentum; raise ValueError with ``key`` unless it is finite."""
    found = unmasked(key, x).reshape(-1)
    if found.dtype not in (np.float32, np.float64):
        raise ValueError(f"{key} is {found.dtype}; it must be float32 or float64")
    if (at := find_nonfinite(read_only(found))) >= 0:
        raise ValueError(f"{key}: element {at} is {float(found[at])}; it must be finite")
    return found


def unmasked(key: str, x: Any) -> Array:
    """Return a copy as an array; raise ValueError with ``key`` if it is masked, or not an array."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"{key} is a masked array; it must be a plain array")
    try:
        return np.array(np.asarray(x))  # torch warns if NumPy asks it for the copy
    except (RuntimeError, TypeError, ValueError) as error:  # a tensor that requires a gradient, for example
        raise ValueError(f"{key}: it cannot be read as an array: {error}") from error
