"""Outer loop of a worker: exchanges of movements, and the steps of the outer optimizer.

``LocalUpdates`` decides when, in which thread and with whom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from collectives.channel import Channel
from collectives.errors import CollectiveError
from collectives.exchange.inputs import Inputs
from collectives.exchange.pending import Pending
from collectives.local_updates.agreement import (
    StateSummary,
    check_states,
    collect_states,
    fetch_state,
    find_leader,
    identify,
)
from collectives.local_updates.anchor import Anchor, Blend
from collectives.local_updates.ends import Link
from collectives.local_updates.kept import Kept, read_share
from collectives.local_updates.ledger import Ledger
from collectives.local_updates.methods import Method
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from collectives.local_updates.outer_step import OuterStep, Replacement, check_step
from collectives.local_updates.over_store import StoreLoop
from collectives.local_updates.parameters import read
from collectives.sites.sites import Sites

EXCHANGES = 2
"""Exchanges of the channel in an exchange of movements: states, then movements."""


@dataclass(frozen=True)
class Terms:
    """Terms of an exchange.

    Attributes:
        channel: of all ranks.
        compressor, settings: of this rank.
        weight: of this rank's movement.
        reduce: averages movements, as ``Method.reduce``.
        of_fragment: whether it is of one fragment of several.
        ledger: of this rank.
        dropped: how often the ledger's worker has dropped its movements.
    """

    channel: Channel | Sites
    compressor: Any
    settings: OuterSettings
    weight: float
    reduce: Callable[..., Any]
    of_fragment: bool
    ledger: Ledger
    dropped: int


def exchange(
    terms: Terms,
    summarize: Callable[[], StateSummary],
    measure: Callable[[], Inputs] | None,
    digest: Callable[[], int] | None = None,
    *,
    commit: bool = True,
) -> Any:
    """Compare the ranks' states, and average their movements.

    Args:
        terms: of the exchange.
        summarize: returns a summary of this rank's state; if it raises, all ranks raise.
        measure: returns its movements, likewise, and the same ones after an error. None if no parameter is
            exchanged, such as of a fragment that is not trained: the ranks then compare their states only.
        digest: as for ``collect_states``.
        commit: as for ``allreduce``.

    Returns the means, or without ``commit`` a Pending.
    """
    channel, compressor, ledger = terms.channel, terms.compressor, terms.ledger
    table = collect_states(channel, summarize, terms.settings, digest, of_fragment=terms.of_fragment)
    check_states(table)
    if ledger.in_doubt is not None:
        ledger.drop()  # no rank has completed it
    identity = identify(table)
    if measure is None:
        ledger.made = ledger.latest = identity
        return {}
    doubt = partial(ledger.doubt, identity, measure, terms.dropped)
    result = terms.reduce(channel, measure, compressor, weight=terms.weight, commit=commit, doubt=doubt)
    ledger.made = identity
    if commit:
        ledger.latest = identity
    return result


class OuterLoop:
    """Parameters, settings and compressor of a worker.

    Args:
        anchor: parameters and outer state.
        settings: of the outer optimizer.
        compressor: of the movements.
        link: to the other ranks.

    Attributes:
        ledger: the latest exchange, and one in doubt.
        inner_step: steps of the present period.
        is_compared: whether the other ranks had this state, and have taken the same steps.
        is_loaded: whether the compressor's state is not compared with the names yet.
        range: of this rank over Sites at the last exchange, as ``find_range`` returns it.
    """

    def __init__(
        self,
        anchor: Anchor,
        settings: OuterSettings,
        compressor: Any,
        link: Link,
    ) -> None:
        self.anchor, self._settings, self._compressor = anchor, settings, compressor
        method = Method.of(compressor)
        self._reduce = method.reduce_by_senders if settings.divide == "senders" else method.reduce
        self._link = link
        self._is_divided = settings.fragments != 1
        self._open: ReferenceType[_Step] | None = None  # an exchange that waits for the caller
        self._over_store: StoreLoop | None = None
        self.ledger, self.inner_step = Ledger(), 0
        self.is_compared = self.is_loaded = False
        self.range: tuple[int, int] | None = None

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
        if self._link.kind.has_members:
            self._exchange_over_store(weight, commit=commit)
            return None
        is_compared, self.is_compared = self.is_compared, False  # also after an error
        over_sites = self._link.kind.is_divided
        summarize, digest = self.summarize_part(names), None
        if is_whole:
            summarize = partial(self._summarize_for_exchange, whole=over_sites or not is_compared)
            digest = None if over_sites else self._digest
        measure = self.measuring(names)
        means = exchange(self.make_terms(weight), summarize, measure, digest, commit=commit)
        replaces = weight == 0
        if commit:
            self.take(means, replaces=replaces)
            self.is_compared = is_whole
            return None
        step = _Step(self, means, self.ledger.made, replaces=replaces)
        self._open = ref(step)
        return Pending(means.means, step)

    def _exchange_over_store(self, weight: float, *, commit: bool) -> None:
        """Exchange all movements in one round of a store."""
        if not commit:
            raise ValueError("commit=False has no meaning over a StoreComm, whose members have counted")
        self.complete()
        self._require_no_new()
        if self.is_loaded:
            self._compressor.require_names(self.anchor.state.parameters)
            self.is_loaded = False
        self._loop_over(self._link.find()).exchange(weight)

    def synchronize(self) -> bool:
        """Take the state of the run, or of the leading rank; return whether it is another one."""
        comm = self._link.find()
        if self._link.kind.has_members:
            self.complete()
            has_changed = self._loop_over(comm).synchronize()
            self.inner_step = 0
            return has_changed
        table = collect_states(comm, partial(self.summarize, token=self.ledger.latest), self._settings)
        leader = find_leader(table)
        own, first = table[comm.rank], table[leader]
        if len({summary._replace(token=0) for summary in table}) > 1:
            self.inner_step = 0
        is_behind: bool = own[:3] != first[:3]
        if len({summary[:3] for summary in table}) > 1:
            fetched = fetch_state(comm, self.anchor.state, self._settings, leader, first.round)
            if is_behind:
                self._take_over(fetched, first)
        self.ledger.drop()
        self.ledger.latest = first.token
        return is_behind

    def _take_over(self, fetched: OuterState, leader: StateSummary) -> None:
        """Take the leading rank's state; parameters that it has not changed keep their movements."""
        state, doubt = self.anchor.state, self.ledger.in_doubt
        changed = [n for n, x in state.parameters.items() if not np.array_equal(x, fetched.parameters[n])]
        carried = dict[str, Array]()
        if doubt is not None and doubt.is_last_of(leader, state.round):
            carried = doubt.find_rest(self.anchor.measure_all(list(doubt.moved)))
            changed = [*changed, *(name for name in doubt.moved if name not in changed)]
            doubt.commit()
        self._compressor.set_step(leader.step)
        self.is_compared = False
        self.anchor.advance(Replacement(state, fetched, changed, carried))

    def _loop_over(self, comm: Any) -> StoreLoop:
        self.ledger.drop()  # the peers of a store have another history
        if self._over_store is None or self._over_store.comm is not comm:
            self._over_store = StoreLoop(self.anchor, self._settings, self._compressor, comm, self.make_step)
        return self._over_store

    def measuring(self, names: Sequence[str], *, in_place: bool = True) -> Callable[[], Inputs] | None:
        """Return a function that returns the movements of some parameters; None without any.

        Args:
            names: of the parameters.
            in_place: whether their means replace them.
        """
        return partial(self._measure, names, in_place=in_place) if names else None

    def _measure(self, names: Sequence[str], *, in_place: bool) -> Inputs:
        """Return the movements of some parameters."""
        if self.is_loaded and self._is_divided:  # the compressor sees some names at a time
            self._compressor.require_names(self.anchor.state.parameters)
        self.is_loaded = False
        movements = self.anchor.measure_all(names)
        accept = partial(check_step, self.anchor.state, settings=self._settings)
        out = movements if in_place else None
        return Inputs(movements, out, accept=accept, cycle=self._settings.fragment_count)

    def make_terms(self, weight: float) -> Terms:
        """Return the terms of an exchange now."""
        channel, ledger, settings = self._link.find(), self.ledger, self._settings
        self.range = self._link.kind.find_range(channel)
        assert self._reduce is not None  # ``check_method``
        return Terms(
            channel,
            self._compressor,
            settings,
            weight,
            self._reduce,
            self._is_divided,
            ledger,
            ledger.dropped,
        )

    def summarize(self, *, token: int | None = None, whole: bool = True) -> StateSummary:
        """Complete the last exchange, and summarize this rank's state."""
        self.complete()
        state, step = self.anchor.state, self._compressor.step
        return StateSummary.of(state, self._settings, step, self.inner_step, token=token, whole=whole)

    def _summarize_for_exchange(self, *, whole: bool) -> StateSummary:
        """Summarize this rank's state; raise ValueError if a parameter would be left out."""
        summary = self.summarize(whole=whole)
        self._require_no_new()
        return summary

    def _digest(self) -> int:
        """Return the digest of the whole state, after an interrupted step was completed."""
        return self.anchor.state.digest()

    def summarize_part(self, names: Sequence[str]) -> Callable[[], StateSummary]:
        """Return a function that summarizes the state of some parameters, or raises as above."""

        def summarize() -> StateSummary:
            self.complete()
            self._require_no_new()
            state, step = self.anchor.state.part(set(names)), self._compressor.step
            return StateSummary.of(state, self._settings, step, self.inner_step)

        return summarize

    def _require_no_new(self) -> None:
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
        step: Replacement = OuterStep(self.anchor.state, means, self._settings)
        step.carried = {}  # it was sent
        if self._settings.keep:
            known = self.anchor.state.parameters
            read_unsent = partial(read_share, self._compressor, known, self._settings.keep)
            step = Kept(step, read_unsent, self.anchor.parameters)
        if replaces or not self._settings.alpha:
            return step
        own = {name: read(self.anchor.parameters[name]) for name in means}
        return Blend(step, own, self._settings.alpha)

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
        if self._over_store is not None:
            self._over_store.complete()

    def settle(self) -> None:
        """Complete an interrupted step, and the round of a store in which this peer's part is not known.

        If the store fails, it remains unknown.
        """
        self.complete()
        if self._over_store is not None:
            with suppress(CollectiveError):
                self._over_store.settle()

    def forget(self) -> None:
        """Drop what is left of earlier exchanges: the worker has loaded another state."""
        self.ledger.forget()
        self._over_store = None

    def require_closed(self) -> None:
        """Raise RuntimeError while an exchange waits for ``commit`` or ``rollback``."""
        waiting = None if self._open is None else self._open()
        if waiting is not None and waiting.is_open:
            raise RuntimeError("an exchange with commit=False is open: call its commit() or rollback() first")


class _Step:
    """Step of the outer optimizer and of the compressor, which waits for ``commit`` or ``rollback``."""

    def __init__(self, owner: OuterLoop, exchange: Pending[Any], identity: int, *, replaces: bool) -> None:
        self._owner, self._exchange, self._identity, self._replaces = owner, exchange, identity, replaces
        self.is_open = True

    def commit(self) -> None:
        """Let the compressor's state advance, and set the parameters to the result."""
        self._exchange.commit()
        self._owner.ledger.latest = self._identity
        self.is_open = False
        self._owner.take(self._exchange.means, replaces=self._replaces)
        self._owner.is_compared = True

    def rollback(self) -> None:
        """Leave everything as it was before the exchange."""
        self._exchange.rollback()
        self.is_open = False
