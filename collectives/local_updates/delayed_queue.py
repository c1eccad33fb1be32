"""Delayed exchanges of a worker: when they start, and when their results are applied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from collectives.channel import Channel
from collectives.local_updates.delayed import Delayed, skip
from collectives.local_updates.outer_loop import OuterLoop
from collectives.sites.sites import Sites
from collectives.torch.isolation import isolate


class DelayedQueue:
    """Delayed exchanges, in the order in which they run in the channel's thread.

    Args:
        outer: makes and takes the steps.
        delay: inner steps between the start of an exchange and its result.
        find_channel: returns the present channel.

    Attributes:
        waiting: exchanges whose results were not applied yet.
        is_idle: whether nothing was submitted to the channel's thread since it was idle.
    """

    def __init__(self, outer: OuterLoop, delay: int, find_channel: Callable[[], Any]) -> None:
        self._outer, self._delay, self._find_channel = outer, delay, find_channel
        self.waiting: list[Delayed] = []
        self.is_idle = True
        self._isolated: Channel | Sites | None = None  # whose exchanges may run beside the program

    def make(self, names: Sequence[str]) -> Delayed:
        """Return an exchange of some parameters, which is not started."""
        return Delayed(names, self._delay)

    def start(self, one: Delayed, weight: float) -> None:
        """Start an exchange; if this raises, call ``skip``."""
        channel = self._find_channel()
        if self._isolated is not channel:
            channel.worker.drain()  # a skipped exchange counts before this one
            isolate(channel)
            self._isolated = channel  # after an error, all ranks try again
        self.is_idle = False
        self.waiting = [*self.waiting, one]
        one.start(
            self._outer.make_terms(weight),
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
        skip(self._find_channel())

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
                self._find_channel().worker.drain()
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
