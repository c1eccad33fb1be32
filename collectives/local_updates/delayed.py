"""An exchange of some parameters' movements, at once or in the channel's thread while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import wirecodec as wc
from collectives.allreduce import reduce_made
from collectives.call import counted, skip_exchange
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.exchange.inputs import Inputs
from collectives.exchange.pending import Pending
from collectives.exchange.transaction import Transaction, concluding
from collectives.local_updates.agreement import StateSummary, check_states, collect_states, identify
from collectives.local_updates.ledger import Ledger
from collectives.local_updates.outer import OuterSettings
from collectives.local_updates.outer_step import Replacement
from collectives.local_updates.senders import reduce_by_senders
from collectives.sites.sites import Sites

EXCHANGES = 2
"""Exchanges of the channel in one of these: states, then movements."""


@dataclass(frozen=True)
class Terms:
    """Terms of an exchange.

    Attributes:
        channel: of all ranks.
        compressor, settings: of this rank.
        weight: of this rank's movement.
        by_senders: whether an element's mean is over the ranks that sent it.
        of_fragment: whether it is of one fragment of several.
        ledger: of this rank.
        dropped: how often the ledger's worker has dropped its movements.
    """

    channel: Channel | Sites
    compressor: wc.Compressor | CLTk
    settings: OuterSettings
    weight: float
    by_senders: bool
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
    ledger.drop()  # no rank has completed it
    identity = identify(table)
    if measure is None:
        ledger.made = ledger.latest = identity
        return {}
    transaction = Transaction(holds=not commit, doubts=True)
    settings: dict[str, Any] = {"weight": terms.weight, "transaction": transaction}
    result: Any
    with concluding(partial(ledger.doubt, identity, measure, terms.dropped, transaction)):
        if isinstance(compressor, CLTk):  # whose ranks send the same elements
            result = compressor.reduce_made(channel, measure, **settings)
        elif terms.by_senders:
            assert isinstance(channel, Channel)
            result = reduce_by_senders(channel, measure, compressor, **settings)
        else:
            result = reduce_made(channel, measure, compressor, **settings)
    ledger.made = identity
    if not commit:
        return Pending(result, transaction.held)
    ledger.latest = identity
    return result


@dataclass(eq=False)
class Delayed:
    """Exchange in the channel's thread.

    Attributes:
        names: of the parameters.
        left: inner steps until its result is applied.
        replaces: whether the result replaces the worker's own parameters, also with ``alpha``.
        means: valid after ``wait``, if there is no error.
        error: of the exchange, or None.
        step: of the outer optimizer, since it was begun.
    """

    names: Sequence[str]
    left: int
    replaces: bool = False
    means: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    step: Replacement | None = None
    _runs: dict[str, bool] = field(default_factory=dict)  # one item; setdefault decides once, in any thread
    _done: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def done(cls, names: Sequence[str], left: int, replaces: bool, means: Mapping[str, Any]) -> Delayed:
        """Return one whose result is there."""
        made = cls(names, left, replaces, means)
        made._done.set()
        return made

    def start(
        self, terms: Terms, summarize: Callable[[], StateSummary], measure: Callable[[], Inputs] | None
    ) -> None:
        """Start with what both functions return now; the thread reports their errors."""
        self.replaces = terms.weight == 0
        state, movements = capture(summarize), None if measure is None else capture(measure)
        # The step is that after earlier exchanges in the thread.
        summary = partial(_complete_summary, state, terms.compressor)
        terms.channel.worker.submit(partial(self._run, terms, summary, movements))

    def withdraw(self) -> bool:
        """Keep the exchange from running; return False if the thread has begun with it, and it goes on.

        After an interrupt of ``start``, nothing else tells whether it was submitted.
        """
        return not self._runs.setdefault("", False)

    def wait(self) -> None:
        """Wait for the result; an interrupt of the wait leaves the exchange as it is."""
        self._done.wait()

    def _run(
        self, terms: Terms, summarize: Callable[[], StateSummary], measure: Callable[[], Inputs] | None
    ) -> None:
        if not self._runs.setdefault("", True):
            return
        try:
            self.means = _exchange_counted(terms, summarize, measure)
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()


@counted(lambda terms, *_: terms.channel, exchanges=EXCHANGES)
def _exchange_counted(
    terms: Terms, summarize: Callable[[], StateSummary], measure: Callable[[], Inputs] | None
) -> Any:
    return exchange(terms, summarize, measure)


def _complete_summary(state: Callable[[], StateSummary], compressor: wc.Compressor | CLTk) -> StateSummary:
    return state()._replace(step=compressor.step)


def skip(channel: Channel | Sites) -> None:
    """Count an exchange as skipped, after those that were started before."""
    channel.worker.submit(partial(skip_exchange, channel, EXCHANGES))


def capture(function: Callable[[], Any]) -> Callable[[], Any]:
    """Call a function, and return one that returns its result, or raises its error."""
    try:
        result = function()
    except Exception as error:
        return partial(_raise, error)
    return lambda: result


def _raise(error: Exception) -> Any:
    raise error
