"""Outer loop of a worker: its movements, its state, and the steps of the outer optimizer.

``LocalUpdates`` decides when and in which thread movements are exchanged, and the kind of the end how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol
from weakref import ReferenceType

from collectives.errors import CollectiveError
from collectives.exchange.encoding import Inputs
from collectives.exchange.transaction import Pending
from collectives.local_updates.agreement import StateSummary
from collectives.local_updates.anchor import Anchor
from collectives.local_updates.ledger import Ledger
from collectives.local_updates.outer import OuterSettings
from collectives.local_updates.outer_step import Blend, Kept, OuterStep, Replacement, check_step, read_share
from collectives.local_updates.parameters import read


class Rounds(Protocol):
    """Protocol of the exchanges over an end; ``ends`` lists the kinds of ends.

    Attributes:
        end: a Channel, Sites or a StoreComm.
    """

    end: Any

    def exchange(
        self, names: Sequence[str], weight: float, *, is_whole: bool, commit: bool = True
    ) -> Pending[Any] | None:
        """Exchange the movements of some parameters now.

        Args:
            names: of the parameters.
            weight: of this rank.
            is_whole: whether they are all that train, not a fragment; the same on all ranks.
            commit: as for ``LocalUpdates.exchange``.
        """
        ...

    def synchronize(self) -> bool:
        """Take the state of the run, or of the leading rank; return whether it is another one."""
        ...


class Rest(Protocol):
    """Protocol of what is left to do after a round from which an exception has broken off."""

    def complete(self) -> None:
        """Do it."""
        ...

    def settle(self) -> None:
        """Learn the result of the round, if it is not known here."""
        ...


class OuterLoop:
    """Parameters, settings and compressor of a worker.

    Args:
        anchor: parameters and outer state.
        settings: of the outer optimizer.
        compressor: of the movements.

    Attributes:
        settings, compressor: the same.
        rest: of a round of a store, or None.
        open: the Pending of an exchange that waits for the caller, or None.
        ledger: the latest exchange, and one in doubt.
        inner_step: steps of the present period.
        is_compared: whether the other ranks had this state, and have taken the same steps.
        is_loaded: whether the compressor's state is not compared with the names yet.
        range: of this rank over Sites at the last exchange: its number in the site, and the site's size.
    """

    def __init__(
        self,
        anchor: Anchor,
        settings: OuterSettings,
        compressor: Any,
    ) -> None:
        self.anchor, self.settings, self.compressor = anchor, settings, compressor
        self.rest: Rest | None = None
        self.open: ReferenceType[Pending[Any]] | None = None
        self.ledger, self.inner_step = Ledger(), 0
        self.is_compared = self.is_loaded = False
        self.range: tuple[int, int] | None = None

    def measuring(self, names: Sequence[str], *, in_place: bool = True) -> Callable[[], Inputs] | None:
        """Return a function that returns the movements of some parameters; None without any.

        Args:
            names: of the parameters.
            in_place: whether their means replace them.
        """
        return partial(self._measure, names, in_place=in_place) if names else None

    def _measure(self, names: Sequence[str], *, in_place: bool) -> Inputs:
        """Return the movements of some parameters."""
        self.check_loaded(is_due=self.settings.fragments != 1)  # the compressor sees some names at a time
        movements = self.anchor.measure_all(names)
        accept = partial(check_step, self.anchor.state, settings=self.settings)
        out = movements if in_place else None
        return Inputs(movements, out, accept=accept, cycle=self.settings.fragment_count)

    def summarize(self, *, token: int | None = None, whole: bool = True) -> StateSummary:
        """Complete the last exchange, and summarize this rank's state."""
        self.complete()
        state, step = self.anchor.state, self.compressor.step
        return StateSummary.of(state, self.settings, step, self.inner_step, token=token, whole=whole)

    def summarize_whole(self, *, whole: bool) -> StateSummary:
        """Summarize this rank's state; raise ValueError if a parameter would be left out."""
        summary = self.summarize(whole=whole)
        self.require_no_new()
        return summary

    def check_loaded(self, *, is_due: bool) -> None:
        """Compare the names in a loaded state of the compressor with the parameters, once.

        Args:
            is_due: whether the compressor does not compare them itself.
        """
        if self.is_loaded and is_due:
            self.compressor.require_names(self.anchor.state.parameters)
        self.is_loaded = False

    def summarize_part(self, names: Sequence[str]) -> Callable[[], StateSummary]:
        """Return a function that summarizes the state of some parameters, or raises as above."""

        def summarize() -> StateSummary:
            self.complete()
            self.require_no_new()
            state, step = self.anchor.state.part(set(names)), self.compressor.step
            return StateSummary.of(state, self.settings, step, self.inner_step)

        return summarize

    def require_no_new(self) -> None:
        """Raise ValueError if a parameter needs a gradient that is not exchanged."""
        for name in self.anchor.find_new():
            raise ValueError(
                f"parameter {name!r} needs a gradient, and did not when LocalUpdates was made: call"
                " admit() on all ranks right after unfreezing it, before it is changed"
            )

    def take(self, means: Mapping[str, Any], *, replaces: bool = False) -> None:
        """Take the step of the outer optimizer for the parameters that were exchanged.

        The other ranks take it, so this one does before an exception is raised that has come in between.
        """
        step: Replacement | None = None

        def run() -> None:
            nonlocal step
            step = step or self.make_step(means, replaces=replaces)
            self.anchor.advance(step)

        try:
            run()
        except BaseException:
            if step is None or not self.anchor.has_taken(step):
                run()
            raise

    def make_step(self, means: Mapping[str, Any], *, replaces: bool = False) -> Replacement:
        """Return that step, which has changed nothing yet.

        Args:
            means: {name: mean}.
            replaces: whether nothing of this worker's own parameters stays, also with ``alpha``: its movement
                is not in the means, so its share would pull the others back.
        """
        step: Replacement = OuterStep(self.anchor.state, means, self.settings)
        step.carried = {}  # it was sent
        if self.settings.keep:
            known = self.anchor.state.parameters
            read_unsent = partial(read_share, self.compressor, known, self.settings.keep)
            step = Kept(step, read_unsent, self.anchor.parameters)
        if replaces or not self.settings.alpha:
            return step
        own = {name: read(self.anchor.parameters[name]) for name in means}
        return Blend(step, own, self.settings.alpha)

    def revert(self) -> None:
        """Set the parameters to the values of the state, and drop all movements."""
        self.complete()
        self.ledger.forget_movements()
        self.anchor.revert()

    def complete(self) -> None:
        """Complete an interrupted step, or set the parameters to the state's values."""
        self.require_closed()
        self.complete_round()
        self.anchor.complete()

    def complete_round(self) -> None:
        """Do what is left to do after a round of a store, from which an exception has broken off."""
        if self.rest is not None:
            self.rest.complete()

    def settle(self) -> None:
        """Complete an interrupted step, and the round of a store in which this peer's part is not known.

        If the store fails, it remains unknown.
        """
        self.complete()
        if self.rest is not None:
            with suppress(CollectiveError):
                self.rest.settle()

    def forget(self) -> None:
        """Drop what is left of earlier exchanges: the worker has loaded another state."""
        self.ledger.forget()
        self.rest = None

    def require_closed(self) -> None:
        """Raise RuntimeError while an exchange waits for ``commit`` or ``rollback``."""
        waiting = None if self.open is None else self.open()
        if waiting is not None and waiting.is_open:
            raise RuntimeError("an exchange with commit=False is open: call its commit() or rollback() first")
