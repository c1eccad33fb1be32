"""Steps of the state of local updates: by the outer optimizer, in place, or to another rank's state.

With the mean movement d = mean(start - end) as gradient, momentum m and rate a, the optimizer is SGD:

    m' = momentum * m + d
    parameters' = parameters - a * (d + momentum * m'  if nesterov, else  m')

A step that was interrupted is continued by the next call: the steps of all tensors of one type are one call
of a kernel, which also counts them.

Source:
    Douillard et al., 2023, DiLoCo, Algorithm 1, lines 12 to 14.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from collectives.errors import CollectiveError
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from collectives.local_updates.parameters import round_to
from wirecodec.interop import DTYPES, describe_arrays, find_nonfinite, have_huge, take_outer_steps

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

    def values(self) -> Iterable[tuple[str, Array]]:
        """Take the step, and return (name, next parameters). Another call continues, and returns all."""
        return [(name, self.after.parameters[name]) for name in self.names]

    def salvage(self) -> OuterState:
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
        parameters, momenta = _own(state.parameters, means), dict[str, Array]()
        if settings.momentum:
            for name, x in parameters.items():
                if name not in state.momenta:
                    momenta[name] = np.empty_like(x) if name in means else np.zeros_like(x)
            momenta = {**_own(state.momenta, means), **momenta}
        moved = [name for name in parameters if name in means]
        super().__init__(state, OuterState(state.round + 1, parameters, momenta), moved)
        self._means, self._settings = means, settings
        self._done = np.zeros(len(DTYPES), np.int64)  # tensors of each type that have taken the step

    def values(self) -> Iterable[tuple[str, Array]]:
        """Take the step, and return (name, next parameters). Another call continues, and returns all."""
        if self._done.sum() < len(self.names):
            self._move()
        return [(name, self.after.parameters[name]) for name in self.names]

    def salvage(self) -> OuterState:
        """Take the rest of the step, and return its values in the old round: ``synchronize`` is needed.

        Values before the step are lost. All ranks that could not write their parameters have the same ones.
        """
        self.values()
        return OuterState(self._before.round, self.after.parameters, self.after.momenta)

    def _move(self) -> None:
        """Take the steps of the tensors that have not taken them."""
        settings, names, n = self._settings, self.names, len(self.names)
        given = [self.after.parameters[name] for name in names]
        momenta = [self.after.momenta[name] for name in names] if settings.momentum else []
        means = [np.ascontiguousarray(self._means[name]) for name in names]
        columns = describe_arrays([*given, *means, *momenta])
        kinds, sizes = columns.kinds.reshape(-1, n), columns.sizes.reshape(-1, n)
        if (kinds != kinds[0]).any() or (sizes != sizes[0]).any() or kinds.min() < 0:
            raise ValueError("a mean has another size or type than its parameter")
        rows = np.zeros((n, 5), np.int64)
        rows[:, 0], rows[:, 2] = columns.addresses[:n], columns.addresses[n : 2 * n]
        rows[:, 1] = columns.addresses[2 * n :] if momenta else 0
        rows[:, 3], rows[:, 4] = sizes[0], [name in self._before.momenta for name in names]
        for kind in np.unique(kinds).tolist():
            of_kind, done = rows[kinds[0] == kind], self._done[kind : kind + 1]
            take_outer_steps(
                of_kind, DTYPES[kind], (settings.momentum, settings.rate), settings.nesterov, done
            )


class Blend(Replacement):
    """Step after which a share of the worker's own parameters stays.

    Args:
        step: of the outer optimizer.
        own: {name: array}, the worker's parameters before it.
        share: of them; the rest is the step's.
    """

    def __init__(self, step: Replacement, own: Mapping[str, Array], share: float) -> None:
        self._step, self._own, self._share = step, own, share
        self.after, self.names, self.carried = step.after, step.names, step.carried

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for name, value in self._step.values():
            own, kind = self._own[name], value.dtype.type
            yield name, np.asarray(own * kind(self._share) + value * kind(1 - self._share))

    def salvage(self) -> OuterState:
        """Return the state of a rank that cannot write its parameters."""
        return self._step.salvage()


class Kept(Replacement):
    """Step after which a worker's parameters keep a share of what it has not sent.

    An exchange sets all workers to the common parameters. A worker whose message leaves much out then
    computes gradients without the progress that waits in its residual, and sends it twice. With ``keep``, its
    parameters start from the common ones less a share of its residual; that share is no new movement.

    What is carried is the share as the parameter holds it, after rounding to its type: a rounding error must
    not count as a movement.

    Args:
        step: of the outer optimizer.
        read_unsent: returns the share of a parameter's residual, or None if it has none.
        parameters: {name: parameter} of the worker.
    """

    def __init__(
        self, step: Replacement, read_unsent: Callable[[str], Array | None], parameters: Mapping[str, Any]
    ) -> None:
        self._step, self._read_unsent, self._parameters = step, read_unsent, parameters
        self.after, self.names = step.after, step.names
        self.carried: dict[str, Array] = {}

    def values(self) -> Iterator[tuple[str, Array]]:
        """Take the step, and yield (name, next parameters). Another call continues, and yields all again."""
        for name, value in self._step.values():
            unsent = self._read_unsent(name)
            if unsent is None:
                yield name, value
                continue
            own, parameter = np.asarray(value - unsent), self._parameters[name]
            self.carried[name] = np.asarray(round_to(parameter, own) - round_to(parameter, value))
            yield name, own

    def salvage(self) -> OuterState:
        """Return the state of a rank that cannot write its parameters."""
        return self._step.salvage()


def read_share(compressor: Any, parameters: Mapping[str, Array], share: float, name: str) -> Array | None:
    """Return a share of a parameter's residual, in its shape and type; None if it has none."""
    residual, like = compressor.residual(name), parameters[name]
    if residual is None:
        return None
    residual *= residual.dtype.type(share)  # it is a copy
    shares: Array = residual.astype(like.dtype, copy=False).reshape(like.shape)
    return shares


def check_step(state: OuterState, means: Mapping[str, Array], settings: OuterSettings) -> None:
    """Raise CollectiveError, on all ranks, if a step by these means would not be finite.

    Args:
        state, means, settings: as for ``OuterStep``; nothing changes.
    """
    given = [*means.values(), *[state.parameters[name] for name in means]]
    given += [state.momenta[name] for name in means if name in state.momenta]
    if settings.rate <= MAX_RATE and not have_huge(given):
        return
    for name, mean in means.items():
        x, momentum = state.parameters[name], state.momenta.get(name)
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


@cache
def rehearse(dtype: np.dtype[Any]) -> None:
    """Compile the kernels of a step for a type, inside the guard of the exchange that comes before it."""
    settings = OuterSettings(every=1, rate=1.0, momentum=0.0, nesterov=False)
    empty = np.empty(0, dtype)
    state = OuterState(0, {"": empty})
    check_step(state, {"": empty}, settings)
    _is_finite(empty, None, empty, settings)
    OuterStep(state, {"": empty}, settings).salvage()


def _own(arrays: Mapping[str, Array], names: Container[str]) -> dict[str, Array]:
    """Return arrays of which those with some names can be changed in place, in row-major order."""
    return {
        name: x
        if name not in names or (x.flags.c_contiguous and x.flags.writeable)
        else np.array(x, order="C")
        for name, x in arrays.items()
    }
