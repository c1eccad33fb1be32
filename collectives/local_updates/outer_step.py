"""Steps of the state of local updates: by the outer optimizer, in place, or to another rank's state.

With the mean movement d = mean(start - end) as gradient, momentum m and rate a, the optimizer is SGD:

    m' = momentum * m + d
    parameters' = parameters - a * (d + momentum * m'  if nesterov, else  m')

A step that was interrupted is continued by the next call: each tensor's step is one call of a kernel, which
also counts it.

Source:
    Douillard et al., 2023, DiLoCo, Algorithm 1, lines 12 to 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from collectives.errors import CollectiveError
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from wirecodec.interop import find_nonfinite, has_huge, read_only, take_outer_step

MAX_RATE = 1000.0
"""Largest rate at which a step is known to be finite if its arrays have no huge element."""
CHECKED_AT_ONCE = 2**14
"""Elements of a tensor whose step is checked in the caches."""


class Replacement:
    """Step to a state that is known already.

    Args:
        before: state before the step.
        after: state after it.
        names: of the parameters that change; None for all.
        carried: see below.

    Attributes:
        after: the state after the step. Its values are valid after ``values``.
        names: of the parameters that change.
        carried: what the anchor carries of these parameters afterwards; None if that does not change.
    """

    carried: Mapping[str, Array] | None = None

    def __init__(
        self,
        before: OuterState,
        after: OuterState,
        names: Iterable[str] | None = None,
        carried: Mapping[str, Array] | None = None,
    ) -> None:
        self._before, self.after, self.carried = before, after, carried
        self.names = list(after.parameters if names is None else names)

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for name in self.names:
            yield name, self.after.parameters[name]

    def abandon(self) -> OuterState:
        """Return the state of a rank that cannot write its parameters."""
        return self._before


class OuterStep(Replacement):
    """Step of the outer optimizer by the mean movement of the workers.

    Args:
        state: before the exchange; its arrays change.
        means: {name: mean of start - end}, contiguous, in the parameters' shapes and types; of all parameters
            or of a fragment.
        settings: of the outer optimizer.
    """

    def __init__(self, state: OuterState, means: Mapping[str, Array], settings: OuterSettings) -> None:
        parameters = {name: _own(x) if name in means else x for name, x in state.parameters.items()}
        momenta = {}
        if settings.momentum:
            for name, x in parameters.items():
                if name in state.momenta:
                    momenta[name] = _own(state.momenta[name]) if name in means else state.momenta[name]
                else:
                    momenta[name] = np.empty_like(x) if name in means else np.zeros_like(x)
        moved = [name for name in parameters if name in means]
        super().__init__(state, OuterState(state.round + 1, parameters, momenta), moved)
        self._means, self._settings = means, settings
        self._done = np.zeros(1, np.int64)  # tensors that have taken the step

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for number, name in enumerate(self.names):
            if number == self._done[0]:
                self._move(name)
            yield name, self.after.parameters[name]

    def abandon(self) -> OuterState:
        """Take the rest of the step, and return its values in the old round: ``synchronize`` is needed.

        Values before the step are lost. All ranks that could not write their parameters have the same ones.
        """
        for _ in self.values():
            pass
        return OuterState(self._before.round, self.after.parameters, self.after.momenta)

    def _move(self, name: str) -> None:
        """Take the step of one tensor, and count it."""
        x, settings = self.after.parameters[name].reshape(-1), self._settings
        momentum = self.after.momenta[name].reshape(-1) if settings.momentum else np.empty(0, x.dtype)
        factors = read_only(np.array([settings.momentum, settings.rate], x.dtype))
        is_first = name not in self._before.momenta
        mean = read_only(self._means[name].reshape(-1))
        take_outer_step(x, momentum, mean, factors, settings.nesterov, is_first, self._done)


def check_step(state: OuterState, means: Mapping[str, Array], settings: OuterSettings) -> None:
    """Raise CollectiveError, on all ranks, if a step by these means would not be finite.

    Args:
        state, means, settings: as for ``OuterStep``; nothing changes.
    """
    for name, mean in means.items():
        x, momentum = state.parameters[name], state.momenta.get(name)
        given = [mean, x] if momentum is None else [mean, x, momentum]
        if settings.rate <= MAX_RATE and not any(map(has_huge, given)):
            continue
        if find_nonfinite(mean) >= 0:  # some schemes carry NaN
            raise CollectiveError(f"tensor {name!r}: the result is not finite", reason="value")
        flat = None if momentum is None else momentum.reshape(-1)
        if not _is_finite(x.reshape(-1), flat, mean.reshape(-1), settings):
            raise CollectiveError(
                f"tensor {name!r}: the step of the outer optimizer is beyond {x.dtype.name}", reason="value"
            )


def require_finite_step(state: OuterState, means: Mapping[str, Array], settings: OuterSettings) -> None:
    """Raise ValueError if a step by means of a saved state would not be finite."""
    try:
        check_step(state, {name: x for name, x in means.items() if name in state.parameters}, settings)
    except CollectiveError as error:
        raise ValueError(f"delayed_mean: {error}") from None


@np.errstate(over="ignore", invalid="ignore")
def _is_finite(x: Array, momentum: Array | None, mean: Array, settings: OuterSettings) -> bool:
    """Return whether a tensor's step is finite, by the same operations as the kernel's."""
    keep, rate = (x.dtype.type(factor) for factor in (settings.momentum, settings.rate))
    for start in range(0, x.size, CHECKED_AT_ONCE):
        block = slice(start, start + CHECKED_AT_ONCE)
        d = update = mean[block]
        if settings.momentum:
            update = d if momentum is None else keep * momentum[block] + d
            if settings.nesterov:
                update = keep * update + d  # not finite if the momentum is not
        if find_nonfinite(x[block] - rate * update) >= 0:
            return False
    return True


def rehearse(dtypes: Iterable[np.dtype[Any]]) -> None:
    """Compile the kernel of a step for some types, inside the guard of the exchange that comes before it."""
    settings = OuterSettings(every=1, rate=1.0, momentum=0.0, nesterov=False)
    for dtype in set(dtypes):
        empty = np.empty(0, dtype)
        state = OuterState(0, {"": empty})
        check_step(state, {"": empty}, settings)
        OuterStep(state, {"": empty}, settings).abandon()


def _own(x: Array) -> Array:
    """Return an array that can be changed in place, in row-major order: a copy if need be."""
    return x if x.flags.c_contiguous and x.flags.writeable else np.array(x, order="C")
