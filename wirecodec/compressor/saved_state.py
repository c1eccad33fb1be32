"""State as flat {str: ndarray}, as it is saved, and the checks of a saved one by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.compressor.loaded import UNKNOWN_RANK, Loaded
from wirecodec.compressor.memory import to_host
from wirecodec.compressor.state import State
from wirecodec.select.base import find_nonfinite
from wirecodec.settings.schedule import Schedule, parse_schedule
from wirecodec.validation import as_integer, as_seed

MAX_STEP = 2**62
"""Half the range of int64, so that a loaded state can count further steps."""

ARRAY_KINDS = _RESIDUAL, _MOMENTUM, _SELECTOR = "residual/", "momentum/", "selector/"
"""Starts of the keys of arrays."""
_COUNT = "arrays"
"""Key of their number, which shows that a checkpoint has dropped some."""


def write_state(state: State) -> dict[str, Array]:
    """Return copies of step, rank, the number of arrays, and the arrays on the host, by key."""
    counted = len(state.residuals) + len(state.momenta) + len(state.selectors)
    numbers = {"step": state.step, "rank": state.rank, _COUNT: counted}
    saved = {key: np.array(number, np.int64) for key, number in numbers.items()}
    saved |= {_RESIDUAL + name: np.array(to_host(x)) for name, x in state.residuals.items()}
    saved |= {_MOMENTUM + name: np.array(to_host(x)) for name, x in state.momenta.items()}
    return saved | {_SELECTOR + name: np.array(x) for name, x in state.selectors.items()}


def read_state(
    saved: Mapping[str, Any],
    owner: str,
    required: Sequence[str] = ("step",),
    optional: Sequence[str] = ("rank",),
    kinds: tuple[str, ...] = (_RESIDUAL,),
    *,
    strict: bool,
) -> tuple[State, Schedule | None]:
    """Return a state, and its schedule or None.

    Args:
        saved: from ``state_dict``.
        owner: the class that saves such a state, for messages.
        required, optional: keys that it has, or may have.
        kinds: the starts of the keys of its arrays.
        strict: whether arrays of another rank, or of unknown tensors, are an error at the first step.

    Raises ValueError if a key or its array is not valid; the message names the key.
    """
    check_keys(saved, owner, required, (*optional, _COUNT), kinds)
    if strict:
        _check_count(saved, kinds)
    seed = as_seed(unmasked("seed", saved["seed"])) if "seed" in saved else 0
    step = saved_step(saved)
    schedule = saved_schedule(saved) if "schedule" in saved else None
    residuals, momenta = (
        {key[len(kind) :]: saved_residual(key, x) for key, x in saved.items() if key.startswith(kind)}
        for kind in (_RESIDUAL, _MOMENTUM)
    )
    selectors = {
        key[len(_SELECTOR) :]: unmasked(key, x) for key, x in saved.items() if key.startswith(_SELECTOR)
    }
    loaded = Loaded(saved_rank(saved), strict)
    return State(step, residuals, selectors, momenta, seed, loaded.rank, loaded), schedule


def check_keys(
    saved: Mapping[str, Any],
    owner: str,
    required: Sequence[str],
    optional: Sequence[str],
    kinds: tuple[str, ...],
) -> None:
    """Raise ValueError if a saved state has an unknown key, or lacks one; arguments as for ``read_state``."""
    known = {*required, *optional}
    odd = [key for key in saved if key not in known and not (isinstance(key, str) and key.startswith(kinds))]
    missing = ", ".join(map(repr, sorted(set(required) - saved.keys())))
    if odd or missing:
        lacks = f"{missing} missing" if len(required) > 1 else f"{required[0]} is missing"
        raise ValueError(f"not a state of {owner}: {f'unknown keys {odd}' if odd else lacks}")


def _check_count(saved: Mapping[str, Any], kinds: tuple[str, ...]) -> None:
    """Raise ValueError if a state has fewer arrays than it says."""
    found = sum(key.startswith(kinds) for key in saved)
    count = as_integer(unmasked(_COUNT, saved.get(_COUNT, found)), _COUNT)
    if found < count:
        raise ValueError(
            f"the state has {found} of its {count} arrays: torch.distributed.checkpoint, for example, loads"
            " only the keys of the new object; save with co.Checkpointable, or load with strict=False"
        )


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
    residual = unmasked(key, x).reshape(-1)
    if residual.dtype not in (np.float32, np.float64):
        raise ValueError(f"{key} is {residual.dtype}; it must be float32 or float64")
    if (at := find_nonfinite(read_only(residual))) >= 0:
        raise ValueError(f"{key}: element {at} is {float(residual[at])}; it must be finite")
    return residual


def unmasked(key: str, x: Any) -> Array:
    """Return a copy as an array; raise ValueError with ``key`` if it is masked, or not an array."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"{key} is a masked array; it must be a plain array")
    try:
        return np.array(np.asarray(x))  # torch warns if NumPy asks it for the copy
    except (RuntimeError, TypeError, ValueError) as error:  # a tensor that requires a gradient, for example
        raise ValueError(f"{key}: it cannot be read as an array: {error}") from error
