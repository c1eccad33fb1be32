"""Anchor: the parameters of a worker, and the outer state from which they started.

Both change together. A change that was interrupted is completed by the next call; after an error, the next
call sets the parameters to the values of the state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from weakref import ReferenceType, ref

from collectives.local_updates.outer import Array, OuterState
from collectives.local_updates.outer_step import Replacement, rehearse
from collectives.local_updates.parameters import (
    digest,
    find_trained,
    measure_movements,
    read,
    write,
    write_all,
)


class Anchor:
    """Parameters that are trained, and the outer state.

    Args:
        named: {name: parameter}, also of parameters that need no gradient yet.
        frozen: whether to exchange those, too: over Sites, a rank's part of the parameters, of which it keeps
            the residuals, must not change when they are unfrozen.

    Attributes:
        parameters: {name: parameter} that need a gradient.
        state: after the last exchange. Its arrays are valid after ``complete``.
        carried: {name: movement} that is added to what the parameters moved: over a StoreComm, that of rounds
            in which this worker did not count; with ``keep``, less the share of the residual that is in the
            parameters.
    """

    def __init__(self, named: Mapping[str, Any], *, frozen: bool = False) -> None:
        self._named = named
        self.parameters = find_trained(named, frozen=frozen)
        self.state = OuterState(0, {name: read(p) for name, p in self.parameters.items()})
        self.carried: dict[str, Array] = {}
        self._next: Replacement | None = None  # a change that is not complete
        self._stale: Collection[str] = ()  # parameters that must be set to the values of the state
        self._latest: ReferenceType[Replacement] | None = None  # the latest change, complete or not
        self._has_warned = False

    def find_new(self) -> dict[str, Any]:
        """Return the parameters that need a gradient and are not exchanged yet."""
        others = {name: p for name, p in self._named.items() if name not in self.parameters}
        return find_trained(others)

    def admit(self, new: Mapping[str, Any]) -> None:
        """Take over further parameters."""
        self.state = self.state.admit({name: read(p) for name, p in new.items()})
        self.parameters = {**self.parameters, **new}

    def restore(self, loaded: OuterState, carried: Mapping[str, Array]) -> None:
        """Take a loaded state; parameters that it lacks start with their present values."""
        self.carried = dict(carried)
        others = {name: read(p) for name, p in self.parameters.items() if name not in loaded.parameters}
        self.state = loaded.admit(others)
        self._next, self._stale = None, ()

    def digest_own(self, names: Iterable[str]) -> int:
        """Return the sum of the CRC-32 of some of the worker's own parameters, whatever their names."""
        return sum(digest(self.parameters[name]) for name in names) % 2**32

    def digest_state(self) -> int:
        """Return the digest of the whole state, which must be complete."""
        return self.state.digest()

    def measure_all(self, names: Sequence[str]) -> dict[str, Array]:
        """Return the movements of parameters, with those that are carried."""
        starts = {name: self.state.parameters[name] for name in names}
        for dtype in {x.dtype for x in starts.values()}:
            rehearse(dtype)
        movements = measure_movements({name: self.parameters[name] for name in names}, starts)
        for name, x in self.carried.items():
            if name in movements:
                movements[name] += x
        return movements

    def save(self) -> Callable[[], None]:
        """Return a function that brings back the parameters and what is carried, for the same state."""
        values = {name: read(p) for name, p in self.parameters.items()}
        carried = self.carried

        def restore() -> None:
            for name, value in values.items():
                write(self.parameters[name], value)
            self.carried = carried

        return restore

    def advance(self, step: Replacement) -> None:
        """Set the state and the parameters to a step's values."""
        self.begin(step)
        self.complete()

    def begin(self, step: Replacement) -> None:
        """Take a step whose values ``complete`` sets."""
        self._next = step

    def has_taken(self, step: Replacement) -> bool:
        """Return whether a step is the latest one that was begun."""
        return self._next is step or (self._latest is not None and self._latest() is step)

    def revert(self) -> None:
        """Set the parameters to the values of the state, and drop all movements."""
        self.carried = {}
        self._stale = list(self.parameters)
        self.complete()

    def complete(self) -> None:
        """Complete an interrupted change; an interrupt is raised when the change is complete."""
        try:
            self._complete()
        except Exception:
            raise
        except BaseException:  # a program that catches it may move the parameters next
            self._complete()
            raise

    def _complete(self) -> None:
        if self._next is None and not self._stale:
            return
        if self._next is None:
            too_large = write_all(
                self.parameters, [(name, self.state.parameters[name]) for name in self._stale]
            )
            self._stale = ()
            self._warn(too_large)
            return
        step = self._next
        self._latest = ref(step)
        self._stale = step.names  # others keep their movements
        try:
            too_large = write_all(self.parameters, step.values())
        except Exception:
            self.state, self._next = step.salvage(), None
            self._carry(step, {})
            raise
        self._carry(step, step.carried)
        self.state, self._next, self._stale = step.after, None, ()
        self._warn(too_large)

    def _warn(self, name: str) -> None:
        """Warn once of a parameter that got the largest value of its type; all else is complete."""
        if name and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"parameter {name!r} got the largest value of its type, {self.parameters[name].dtype}, in"
                " place of larger ones: training has diverged, or the type is too small",
                RuntimeWarning,
                stacklevel=2,
            )

    def _carry(self, step: Replacement, carried: Mapping[str, Array] | None) -> None:
        """Replace what is carried of a step's parameters, if the step decides about it."""
        if step.carried is not None and carried is not None:
            others = {name: x for name, x in self.carried.items() if name not in step.names}
            self.carried = {**others, **carried}
