"""State of LocalUpdates as flat {str: ndarray}, as it is saved, and the checks of a saved one by key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from collectives.local_updates.delayed import Delayed
from collectives.local_updates.outer import Array, OuterState
from wirecodec.interop import as_integer, check_keys, unmasked

_COUNTS = ("inner_step", "round")
_OWN = "own_digest"
"""Key of the digest of the worker's own parameters, which are saved with the model."""
_KINDS = _PARAMETER, _MOMENTUM, _COMPRESSOR, _LEFT, _REPLACES, _MEAN, _CARRIED = (
    "parameter/",
    "momentum/",
    "compressor/",
    "delayed_left/",
    "delayed_replaces/",
    "delayed_mean/",
    "carried/",
)


def write_state(
    state: OuterState, inner_step: int, own_digest: int, compressor: Mapping[str, Array]
) -> dict[str, Array]:
    """Return numbers and copies of the arrays by key, with the saved state of the compressor."""
    numbers = {"round": state.round, "inner_step": inner_step, _OWN: own_digest}
    saved = {key: np.array(number, np.int64) for key, number in numbers.items()}
    saved |= {_PARAMETER + name: x.copy() for name, x in state.parameters.items()}
    saved |= {_MOMENTUM + name: x.copy() for name, x in state.momenta.items()}
    return saved | {_COMPRESSOR + key: x for key, x in compressor.items()}


def list_parameters(saved: Mapping[str, Any]) -> Collection[str]:
    """Return the names of the parameters of a saved state."""
    return _cut(saved, _PARAMETER).keys()


def read_state(
    saved: Mapping[str, Any], parameters: Mapping[str, Array], *, has_momentum: bool, strict: bool
) -> tuple[OuterState, int, dict[str, Any]]:
    """Return the outer state, the steps since the last exchange, and the saved state of the compressor.

    Args:
        saved: from ``write_state``, as arrays or tensors.
        parameters: {name: array} of the shapes and types that are expected.
        has_momentum: whether the outer optimizer has momentum.
        strict: whether the saved state must have these names; others are ignored.

    Raises ValueError if a key or its array is not valid; the message names the key.
    """
    check_keys(saved, "LocalUpdates", _COUNTS, (_OWN,), _KINDS)
    if strict:
        _check_names(_cut(saved, _PARAMETER).keys(), parameters.keys())
    steps, rounds = (as_integer(saved[key], key) for key in _COUNTS)
    for key, count in (("round", rounds), ("inner_step", steps)):
        if not 0 <= count < 2**62:
            raise ValueError(f"{key} is {count}; it must be 0 to 2^62")
    arrays, momenta = (
        {
            name: _check_array(kind + name, x, parameters[name])
            for name, x in _cut(saved, kind).items()
            if name in parameters
        }
        for kind in (_PARAMETER, _MOMENTUM)
    )
    if has_momentum and rounds:  # the state has no outer momentum, or not all of it
        momenta = {name: np.zeros_like(x) for name, x in arrays.items()} | momenta
    return OuterState(rounds, arrays, momenta), steps, _cut(saved, _COMPRESSOR)


def read_own_digest(saved: Mapping[str, Any]) -> int | None:
    """Return the digest of the worker's own parameters; None in a state of an older version."""
    return as_integer(saved[_OWN], _OWN) if _OWN in saved else None


def write_delayed(delayed: Sequence[Delayed]) -> dict[str, Array]:
    """Return the results of delayed exchanges, and the steps until they are applied, by key."""
    saved: dict[str, Array] = {}
    for number, one in enumerate(delayed):
        saved[f"{_LEFT}{number}"] = np.array(max(one.left, 0), np.int64)
        if one.replaces:
            saved[f"{_REPLACES}{number}"] = np.array(1, np.int64)
        saved |= {f"{_MEAN}{number}/{name}": np.array(mean) for name, mean in one.means.items()}
    return saved


def write_carried(carried: Mapping[str, Array]) -> dict[str, Array]:
    """Return copies of the movements that wait for the next exchange, by key."""
    return {_CARRIED + name: x.copy() for name, x in carried.items()}


def read_carried(
    saved: Mapping[str, Any], parameters: Mapping[str, Array], *, strict: bool
) -> dict[str, Array]:
    """Return the movements that wait for the next exchange; the arguments are those of ``read_delayed``."""
    found = _cut(saved, _CARRIED)
    for name in found.keys() - parameters.keys() if strict else ():
        raise ValueError(f"{_CARRIED}{name}: no parameter is called {name!r}")
    return {
        name: _check_array(_CARRIED + name, x, parameters[name])
        for name, x in found.items()
        if name in parameters
    }


def read_delayed(
    saved: Mapping[str, Any], parameters: Mapping[str, Array], delay: int, *, strict: bool
) -> list[Delayed]:
    """Return the delayed exchanges of a state, whose results are there.

    Args:
        saved: from ``write_delayed``.
        parameters: {name: array} of the shapes and types that are expected.
        delay: the most steps until a result is applied.
        strict: whether other names are an error; they are dropped otherwise.

    Raises ValueError if a key or its array is not valid.
    """
    delayed = []
    numbers = [str(number) for number in range(len(_cut(saved, _LEFT)))]
    flags = _cut(saved, _REPLACES)
    for number in (*_cut(saved, _LEFT), *flags, *(key.split("/")[0] for key in _cut(saved, _MEAN))):
        if number not in numbers:
            raise ValueError(f"{_LEFT}{number}: delayed exchanges must be numbered from 0, each with its key")
    for number, left in ((number, saved[_LEFT + number]) for number in numbers):
        key, steps = f"{_LEFT}{number}", as_integer(left, f"{_LEFT}{number}")
        if not 0 <= steps < 2**62:
            raise ValueError(f"{key} is {steps}; it must be 0 to 2^62")
        replaces = as_integer(flags.get(number, 0), f"{_REPLACES}{number}") != 0
        kind = f"{_MEAN}{number}/"
        for name in _cut(saved, kind).keys() - parameters.keys() if strict else ():
            raise ValueError(f"{kind}{name}: no parameter is called {name!r}")
        means = {
            name: _check_array(kind + name, x, parameters[name])
            for name, x in _cut(saved, kind).items()
            if name in parameters
        }
        delayed.append(Delayed.done(list(means), min(steps, delay), replaces, means))
    return delayed


def _cut(saved: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the items of which the keys start with a kind, by the rest of the keys."""
    return {
        key.removeprefix(kind): x
        for key, x in saved.items()
        if isinstance(key, str) and key.startswith(kind)  # ``check_keys`` refuses others
    }


def _check_names(saved: Collection[str], expected: Collection[str]) -> None:
    """Raise ValueError if the parameters of a state are not those that are expected."""
    unknown, missing = set(saved).difference(expected), set(expected).difference(saved)
    if unknown or missing:
        what = f"no parameter is called {min(unknown)!r}" if unknown else f"{min(missing)!r} is missing"
        raise ValueError(
            f"parameters of the state: {what}; rename them by wc.rename_state, or pass strict=False,"
            " which ignores unknown parameters and starts missing ones with their present values"
        )


def _check_array(key: str, x: Any, like: Array) -> Array:
    """Return a copy of a saved array; raise ValueError unless it fits its parameter."""
    array = unmasked(key, x)
    if array.shape != like.shape or array.dtype != like.dtype:
        raise ValueError(
            f"{key} is {array.dtype} of shape {array.shape}; it must be {like.dtype} of {like.shape}"
        )
    return array
