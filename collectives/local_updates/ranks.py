"""Exchanges with ranks that stay: comparison of their states, the mean of their movements, and its step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from collectives.channel import Channel
from collectives.exchange.encoding import Inputs
from collectives.exchange.transaction import Pending, Transaction, settling
from collectives.local_updates.agreement import (
    StateSummary,
    check_states,
    collect_states,
    fetch_state,
    find_leader,
    identify,
)
from collectives.local_updates.ledger import Ledger
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from collectives.local_updates.outer_loop import OuterLoop
from collectives.local_updates.outer_step import Replacement
from collectives.methods import Method
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
    transaction: Transaction | None = None,
) -> Any:
    """Compare the ranks' states, and average their movements.

    Args:
        terms: of the exchange.
        summarize: returns a summary of this rank's state; if it raises, all ranks raise.
        measure: returns its movements, likewise, and the same ones after an error. None if no parameter is
            exchanged, such as of a fragment that is not trained: the ranks then compare their states only.
        digest: as for ``collect_states``.
        transaction: of the compressor's step; None to commit the step.

    Returns the means.
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
    transaction = transaction or Transaction(doubts=True)
    with settling(partial(ledger.doubt, identity, measure, terms.dropped, transaction)):
        means = terms.reduce(channel, measure, compressor, weight=terms.weight, transaction=transaction)
    ledger.made = identity
    if not transaction.holds:
        ledger.latest = identity
    return means


class RankRounds:
    """Exchanges over a Channel or Sites.

    Args:
        outer: the worker's outer loop.
        end: the Channel, or Sites.
        is_divided: whether ranks have parts of residuals, by their place in a site.

    Attributes:
        end: the same.
    """

    def __init__(self, outer: OuterLoop, end: Any, *, is_divided: bool = False) -> None:
        self._outer, self.end, self._is_divided = outer, end, is_divided
        method, by_senders = Method.of(outer.compressor), outer.settings.divide == "senders"
        reduce = method.reduce_by_senders if by_senders else method.reduce
        assert reduce is not None  # ``check_method``
        self._reduce = reduce

    def exchange(
        self, names: Sequence[str], weight: float, *, is_whole: bool, commit: bool = True
    ) -> Pending[Any] | None:
        """Exchange the movements of some parameters now, as ``Rounds.exchange`` says."""
        outer = self._outer
        is_compared, outer.is_compared = outer.is_compared, False  # also after an error
        summarize, digest = outer.summarize_part(names), None
        if is_whole:
            summarize = partial(outer.summarize_whole, whole=self._is_divided or not is_compared)
            digest = None if self._is_divided else outer.anchor.digest_state
        transaction = Transaction(holds=not commit, doubts=True)
        means = exchange(self.make_terms(weight), summarize, outer.measuring(names), digest, transaction)
        identity = outer.ledger.made

        def take() -> None:
            outer.ledger.latest = identity
            outer.take(means, replaces=weight == 0)
            outer.is_compared = is_whole

        if commit:
            take()
            return None
        pending = Pending(means, transaction.held, take)
        outer.open = ref(pending)
        return pending

    def synchronize(self) -> bool:
        """Take the state of the leading rank; return whether it is another one."""
        comm, outer, settings = self.end, self._outer, self._outer.settings
        table = collect_states(comm, partial(outer.summarize, token=outer.ledger.latest), settings)
        leader = find_leader(table)
        own, first = table[comm.rank], table[leader]
        if len({summary._replace(token=0) for summary in table}) > 1:
            outer.inner_step = 0
        is_behind: bool = own[:3] != first[:3]
        if len({summary[:3] for summary in table}) > 1:
            fetched = fetch_state(comm, outer.anchor.state, settings, leader, first.round)
            if is_behind:
                self._take_over(fetched, first)
        outer.ledger.drop()
        outer.ledger.latest = first.token
        return is_behind

    def _take_over(self, fetched: OuterState, leader: StateSummary) -> None:
        """Take the leading rank's state; parameters that it has not changed keep their movements."""
        outer = self._outer
        state, doubt = outer.anchor.state, outer.ledger.in_doubt
        changed = [n for n, x in state.parameters.items() if not np.array_equal(x, fetched.parameters[n])]
        carried = dict[str, Array]()
        if doubt is not None and doubt.is_last_of(leader, state.round):
            carried = doubt.find_rest(outer.anchor.measure_all(list(doubt.moved)))
            changed = [*changed, *(name for name in doubt.moved if name not in changed)]
            doubt.commit()
        outer.compressor.set_step(leader.step)
        outer.is_compared = False
        outer.anchor.advance(Replacement(state, fetched, changed, carried))

    def make_terms(self, weight: float) -> Terms:
        """Return the terms of an exchange now."""
        outer, end = self._outer, self.end
        outer.range = find_range(end) if self._is_divided else None
        settings, ledger, of_fragment = outer.settings, outer.ledger, outer.settings.fragments != 1
        return Terms(
            end, outer.compressor, settings, weight, self._reduce, of_fragment, ledger, ledger.dropped
        )


def find_range(sites: Any) -> tuple[int, int]:
    """Return what decides about a rank's range over Sites: its number in the site, and the site's size."""
    return sites.local.rank, sites.local.size
