"""Polling of requests, with pauses and a deadline.

The first polls have no pause, the next ones yield the core, and later ones sleep for an eighth of the time
waited so far: ranks may outnumber the cores, and a long sleep would delay what arrives. The wait ends if all
requests complete, or if nothing arrives for ``timeout`` seconds. A rank that waits for long also answers the
roll call of ranks that have given up (``collectives.waiting.roll_call``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from collectives.communicator import Communicator, Request
from collectives.errors import name_ranks
from collectives.waiting.roll_call import RollCall

POLLS_WITHOUT_PAUSE = 50  # about 20 µs
POLLS_WITH_YIELD = 10
SLEEP_FRACTION = 1 / 8  # of the time waited so far
MAX_SLEEP = 1e-3  # seconds
FIRST_LISTEN = 0.5  # seconds of silence after which a rank looks for notices of others
LISTEN_INTERVAL = 0.1  # seconds between two further looks


class Backoff:
    """Waiting strategy of one rank: call ``pause`` after a poll without result, else ``reset``.

    Args:
        comm: the communicator whose requests are polled.
        timeout: seconds without an arrival after which ``pause`` raises Timeout.
        what: name of the operation in the Timeout.
        meanwhile: a function that is called instead of a pause until it returns False.
        roll_call: finds the missing ranks; by default one for this wait alone.
        needs_all: whether the operation can only complete if no rank has given up.
    """

    def __init__(
        self,
        comm: Communicator,
        timeout: float,
        what: str,
        meanwhile: Callable[[], bool] | None = None,
        *,
        roll_call: RollCall | None = None,
        needs_all: bool = False,
    ) -> None:
        self._meanwhile = meanwhile
        self._block = getattr(comm, "block", None)
        # This assumes that all ranks share this host: if they do not, an early yield costs little.
        self._max_spins = POLLS_WITHOUT_PAUSE if comm.size <= _count_cores() else 0
        self._timeout = timeout
        self._what = what
        self._roll_call = RollCall(comm) if roll_call is None else roll_call
        self._needs_all = needs_all
        self._first_listen = min(FIRST_LISTEN, timeout / 4)
        self.reset()

    def reset(self) -> None:
        """Poll without pauses again, and restart the timeout, because something completed."""
        self._misses = 0
        self._since = time.monotonic()
        self._next_listen = self._since + self._first_listen

    def pause(self, pending: Sequence[Request]) -> None:
        """Yield the core, sleep, or call ``meanwhile``, because nothing completed.

        Args:
            pending: the requests that are waited for.

        Raises:
            Timeout: the timeout is over, or the requests can never complete.
            CollectiveError: another rank has lost a connection.
        """
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None  # if it raises, it is not called again
            if meanwhile():
                self._meanwhile = meanwhile
                self._since = now = time.monotonic()  # the caller's computation does not count as silence
                self._listen(now)
                return
        if self._block is not None:
            if not self._block(pending):
                self._give_up("cannot complete: every rank waits or has ended")
            return
        self._misses += 1
        if self._misses <= self._max_spins:
            return
        now = time.monotonic()
        if self._misses <= self._max_spins + POLLS_WITH_YIELD:
            _yield_core()
        else:
            time.sleep(min((now - self._since) * SLEEP_FRACTION, MAX_SLEEP))
        self._listen(now)
        if now - self._since > self._timeout:
            self._give_up(f"received nothing for {self._timeout:g} s")

    def _listen(self, now: float) -> None:
        """Answer the roll calls of other ranks from time to time."""
        if now < self._next_listen:
            return
        self._next_listen = now + LISTEN_INTERVAL
        gone = self._roll_call.answer(self._what)
        if gone and self._roll_call.has_loss:
            why = f"{self._what} cannot complete: {name_ranks(gone)} cannot take part any more"
            raise self._roll_call.make_loss(why, self._timeout)
        if gone and self._needs_all:
            self._give_up(f"cannot complete: {name_ranks(gone)} cannot take part any more")

    def _give_up(self, why: str) -> NoReturn:
        raise self._roll_call.make_timeout(self._what, why, self._timeout)


def check_seconds(**seconds: float) -> None:
    """Raise ValueError if a number of seconds, passed by its name, is not positive."""
    for name, value in seconds.items():
        if not value > 0:
            raise ValueError(f"{name} is {value!r}; it must be a positive number of seconds")


def wait_all(backoff: Backoff, requests: Sequence[Request]) -> None:
    """Poll until every request is complete. Raises Timeout like ``backoff``."""
    pending = list(requests)
    while pending:
        incomplete = [request for request in pending if not request.Test()]
        if len(incomplete) < len(pending):
            backoff.reset()
        elif incomplete:
            backoff.pause(incomplete)
        pending = incomplete


def _count_cores() -> int:
    """Count the cores that this process may use; a container or a binding may exclude some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
