"""Deterministic scheduler of simulated ranks: one thread per rank, of which one runs at a time.

A thread runs until it waits, or polls without result. Then the ready rank with the earliest simulated clock
runs, or of several, the next one in rank order. So shared state needs no locks, and no rank acts on another
rank's future. If all ranks wait, nothing can happen any more, and each of them is informed. If a rank raises,
the others end at their next communication.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

T = TypeVar("T")

MAX_IDLE_POLLS = 100_000  # by all ranks together without an event; then the program polls forever


class _RankEnded(BaseException):
    """Exception that ends a rank's thread after another rank failed; not caught by ``except Exception``."""


class Scheduler:
    """Scheduler of n ranks. Only the running rank may call its methods.

    Args:
        n: number of ranks, at least 1.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._permits = [threading.Semaphore(0) for _ in range(n)]
        self._state: list[Literal["ready", "waiting", "gone"]] = ["ready"] * n
        self._time = [0.0] * n  # from which each rank can continue
        self._stuck: set[int] = set()
        self._idle_polls = 0
        self._failure: tuple[int, BaseException] | None = None

    def run(self, body: Callable[[int], T]) -> list[T]:
        """Run body(rank) on every rank, each in its own thread.

        Returns:
            The results in rank order.

        Raises:
            BaseException: the exception of the first rank that failed, with a note that names the rank.
        """
        results: dict[int, T] = {}

        def run_rank(rank: int) -> None:
            try:
                self._permits[rank].acquire()
                self.check()
                results[rank] = body(rank)
            except _RankEnded:
                pass
            except BaseException as error:
                self._fail(rank, error)
            finally:
                self._state[rank] = "gone"
                self._start_next(rank)

        threads = [
            # Each thread has a copy of the caller's context, so that NumPy's error state is the caller's.
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(run_rank, rank),
                name=f"rank {rank}",
                daemon=True,
            )
            for rank in range(self.n)
        ]
        for thread in threads:
            thread.start()
        self._permits[0].release()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:  # an interrupt: the ranks end at their next communication
            self._fail(-1, error)
            raise
        if self._failure is not None:
            rank, failure = self._failure
            _add_note(failure, f"raised on simulated rank {rank} of {self.n}")
            raise failure
        return [results[rank] for rank in range(self.n)]

    def check(self) -> None:
        """End this rank if another one failed."""
        if self._failure is not None:
            raise _RankEnded

    def notify(self, ranks: Iterable[int], now: float) -> None:
        """Wake ranks, because something happened at time ``now`` that they may wait for."""
        self._idle_polls = 0
        for rank in ranks:
            self._time[rank] = min(self._time[rank], now)
            self._wake([rank])

    def yield_after_poll(self, rank: int, now: float) -> bool:
        """Run other ranks after a poll without result; return False if all ranks poll without any event."""
        self._idle_polls += 1
        if self._idle_polls > MAX_IDLE_POLLS:
            return False
        others = [t for other, t in enumerate(self._time) if other != rank and self._state[other] == "ready"]
        self._time[rank] = max(now, min(others, default=now))  # otherwise this rank would run again
        self._switch(rank)
        return True

    def yield_until(self, rank: int, time: float) -> None:
        """Run the other ranks that can continue before ``time``, or until this rank is notified."""
        self._time[rank] = time
        if any(t < time and self._state[other] == "ready" for other, t in enumerate(self._time)):
            self._switch(rank)

    def wait(self, rank: int, now: float) -> bool:
        """Run other ranks until this one is notified; return False if that can never happen."""
        self._state[rank] = "waiting"
        self._time[rank] = now
        self._switch(rank)
        stuck = rank in self._stuck
        self._stuck.discard(rank)
        return not stuck

    def _switch(self, rank: int) -> None:
        """Start the next ready rank; return when this rank may run again."""
        self._start_next(rank)
        self._permits[rank].acquire()
        self.check()

    def _start_next(self, rank: int) -> None:
        order = sorted(
            ((rank + step) % self.n for step in range(1, self.n + 1)), key=lambda other: self._time[other]
        )
        ready = [other for other in order if self._state[other] == "ready"]
        if not ready:
            ready = [other for other in order if self._state[other] == "waiting"]
            self._stuck.update(ready)
            self._wake(ready)
        if ready:
            self._permits[ready[0]].release()

    def _fail(self, rank: int, error: BaseException) -> None:
        """Record the first failure, and wake every waiting rank so that it ends."""
        if self._failure is None:
            self._failure = rank, error
        self._wake(range(self.n))

    def _wake(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            if self._state[rank] == "waiting":
                self._state[rank] = "ready"


def _add_note(error: BaseException, text: str) -> None:
    """Add a note like ``error.add_note``, which Python 3.10 does not have."""
    error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined]
