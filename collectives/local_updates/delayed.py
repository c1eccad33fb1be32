"""Delayed exchanges: in the channel's thread while training goes on, and the queue of their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from collectives.call import counted, skip_exchange
from collectives.channel import Channel
from collectives.exchange.encoding import Inputs
from collectives.local_updates.agreement import StateSummary
from collectives.local_updates.ends import Link
from collectives.local_updates.outer_loop import OuterLoop
from collectives.local_updates.outer_step import Replacement
from collectives.local_updates.ranks import EXCHANGES, Terms, exchange
from collectives.sites.sites import Sites
from collectives.torch.isolation import isolate
from wirecodec.interop import Latch


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
    _done: Latch = field(default_factory=Latch)

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


def _complete_summary(state: Callable[[], StateSummary], compressor: Any) -> StateSummary:
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


class DelayedQueue:
    """Delayed exchanges, in the order in which they run in the channel's thread.

    Args:
        outer: makes and takes the steps.
        delay: inner steps between the start of an exchange and its result.
        link: to the other ranks.

    Attributes:
        waiting: exchanges whose results were not applied yet.
        is_idle: whether nothing was submitted to the channel's thread since it was idle.
    """

    def __init__(self, outer: OuterLoop, delay: int, link: Link) -> None:
        self._outer, self._delay, self._link = outer, delay, link
        self.waiting: list[Delayed] = []
        self.is_idle = True
        self._isolated: Channel | Sites | None = None  # whose exchanges may run beside the program

    def make(self, names: Sequence[str]) -> Delayed:
        """Return an exchange of some parameters, which is not started."""
        return Delayed(names, self._delay)

    def start(self, one: Delayed, weight: float) -> None:
        """Start an exchange; if this raises, call ``skip``."""
        channel = self._link.find()
        if self._isolated is not channel:
            channel.worker.drain()  # a skipped exchange counts before this one
            isolate(channel)
            self._isolated = channel  # after an error, all ranks try again
        self.is_idle = False
        self.waiting = [*self.waiting, one]
        one.start(
            self._link.find_rounds(self._outer).make_terms(weight),
            self._outer.summarize_part(one.names),
            self._outer.measuring(one.names, in_place=False),
        )

    def skip(self, one: Delayed | None = None) -> None:
        """Count an exchange as skipped, after those that still run in the channel's thread.

        Args:
            one: the exchange, if it was made. If the thread has begun with it, it goes on, and counts.
        """
        self.is_idle = False
        if one is not None:
            if not one.withdraw():
                return
            self.waiting = [other for other in self.waiting if other is not one]  # its result never comes
        skip(self._link.find())

    def apply_due(self, names: Collection[str] = ()) -> bool:
        """Apply the results that are due; return whether there were any.

        Args:
            names: of the parameters that are exchanged next. Results for them are due, too: a state that was
                saved with other settings may have some.
        """
        has_applied, wanted = False, set(names)
        while self.waiting and (
            self.waiting[0].left <= 0 or not all(wanted.isdisjoint(one.names) for one in self.waiting)
        ):
            self._apply_first()
            has_applied = True
        return has_applied

    def replace_own(self) -> None:
        """Let results replace the worker's own parameters whole, because it has dropped its movement."""
        for one in self.waiting:
            one.replaces = True

    def apply_all(self) -> None:
        """Apply all results, or raise the first error."""
        while self.waiting:
            self._apply_first()

    def settle(self) -> None:
        """Apply all results, and drop the errors."""
        self.waiting = self.wait()
        self.apply_all()

    def wait(self) -> list[Delayed]:
        """Wait for all results; return the exchanges without error."""
        for one in self.waiting:
            one.wait()
        return [one for one in self.waiting if one.error is None and not self._is_begun(one)]

    def restore(self, waiting: Iterable[Delayed]) -> None:
        """Take a loaded state, after ``wait``."""
        self.waiting = list(waiting)

    def free_channel(self, finish: Callable[[], None]) -> None:
        """Call ``apply_all`` or ``settle``, and wait until the channel's thread has no part in the channel.

        The call of an exchange begins so; if this raises, that exchange is skipped.
        """
        try:
            finish()
            if not self.is_idle:
                self._link.find().worker.drain()
        except BaseException:
            self.skip()
            raise
        self.is_idle = True

    def _apply_first(self) -> None:
        """Wait for the oldest exchange, and apply its result or raise its error."""
        self._outer.complete()  # an earlier result, if an interrupt came while it was written
        one = self.waiting[0]
        one.wait()
        if one.error is None and not self._is_begun(one):
            # If this raises, nothing is lost.
            one.step = self._outer.make_step(one.means, replaces=one.replaces)
            self._outer.anchor.begin(one.step)
        self.waiting = self.waiting[1:]  # an interrupt before it leaves one whose step is begun
        if one.error is not None:
            raise one.error
        self._outer.complete()

    def _is_begun(self, one: Delayed) -> bool:
        """Return whether the result of an exchange is applied, or will be by ``complete``."""
        return one.step is not None and self._outer.anchor.has_taken(one.step)
