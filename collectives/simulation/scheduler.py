"""Threads that take turns: one of them runs at a time, and each simulation goes the same way.

A thread runs until it waits, or polls in vain; then the turn passes to the one, of those that can go on, that
is earliest on the simulated clock, and among these to the next in rank order. So what the threads share needs
no locks, and nobody acts on what lies in another one's future. Where all of them wait, nothing can ever
happen again, and each is told so. Where one raises, the others are ended at their next communication.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

__all__ = ["Turns"]

T = TypeVar("T")

_FRUITLESS = 100_000  # polls by all ranks together without news, after which a program polls forever


class _Ended(BaseException):
    """Ends a rank's thread because another one failed; no ``except Exception`` of the program catches it."""


class Turns:
    """Whose turn it is among n ranks, and who waits. Only the rank whose turn it is may call this.

    Args:
        n: ranks, at least 1.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._turns = [threading.Semaphore(0) for _ in range(n)]
        self._state: list[Literal["ready", "waiting", "gone"]] = ["ready"] * n
        self._time = [0.0] * n  # from when on each can go on
        self._stuck: set[int] = set()
        self._polls = 0
        self._failure: tuple[int, BaseException] | None = None

    def run(self, body: Callable[[int], T]) -> list[T]:
        """The results of body(rank) on every rank, each in a thread of its own.

        Raises what the first rank to fail raised, with a note that names the rank.
        """
        results: dict[int, T] = {}

        def thread_of(rank: int) -> None:
            try:
                self._turns[rank].acquire()
                self.check()
                results[rank] = body(rank)
            except _Ended:
                pass
            except BaseException as error:
                self._fail(rank, error)
            finally:
                self._state[rank] = "gone"
                self._hand_on(rank)

        threads = [
            # A context of its own, as a copy: NumPy's error state is the caller's on every rank.
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(thread_of, rank),
                name=f"rank {rank}",
                daemon=True,
            )
            for rank in range(self.n)
        ]
        for thread in threads:
            thread.start()
        self._turns[0].release()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:  # an interrupt: the ranks end at their next communication
            self._fail(-1, error)
            raise
        if self._failure is not None:
            rank, failure = self._failure
            _note(failure, f"raised on simulated rank {rank} of {self.n}")
            raise failure
        return [results[rank] for rank in range(self.n)]

    def check(self) -> None:
        """End this rank if another one failed."""
        if self._failure is not None:
            raise _Ended

    def news(self, ranks: Iterable[int], now: float) -> None:
        """Something happened, which these ranks may wait for, while it was ``now`` on the caller's clock."""
        self._polls = 0
        for rank in ranks:
            self._time[rank] = min(self._time[rank], now)
            self._wake([rank])

    def poll(self, rank: int, now: float) -> bool:
        """Let others run after a poll that found nothing; False where all ranks poll, without any news."""
        self._polls += 1
        if self._polls > _FRUITLESS:
            return False
        others = [t for other, t in enumerate(self._time) if other != rank and self._state[other] == "ready"]
        self._time[rank] = max(now, min(others, default=now))  # or it would be its turn again
        self._pass(rank)
        return True

    def until(self, rank: int, time: float) -> None:
        """Let all those run that can go on before ``time``; less long where there is news for this rank."""
        self._time[rank] = time
        if any(t < time and self._state[other] == "ready" for other, t in enumerate(self._time)):
            self._pass(rank)

    def wait(self, rank: int, now: float) -> bool:
        """Let others run until there is news for this rank; False where there can never be any."""
        self._state[rank] = "waiting"
        self._time[rank] = now
        self._pass(rank)
        stuck = rank in self._stuck
        self._stuck.discard(rank)
        return not stuck

    def _pass(self, rank: int) -> None:
        """Let the next rank run that can, and return when it is this rank's turn again."""
        self._hand_on(rank)
        self._turns[rank].acquire()
        self.check()

    def _hand_on(self, rank: int) -> None:
        order = sorted(
            ((rank + step) % self.n for step in range(1, self.n + 1)), key=lambda other: self._time[other]
        )
        ready = [other for other in order if self._state[other] == "ready"]
        if not ready:
            ready = [other for other in order if self._state[other] == "waiting"]
            self._stuck.update(ready)
            self._wake(ready)
        if ready:
            self._turns[ready[0]].release()

    def _fail(self, rank: int, error: BaseException) -> None:
        """Note the first failure, and let every waiting rank run to its end."""
        if self._failure is None:
            self._failure = rank, error
        self._wake(range(self.n))

    def _wake(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            if self._state[rank] == "waiting":
                self._state[rank] = "ready"


def _note(error: BaseException, text: str) -> None:
    """``error.add_note``, which Python 3.10 does not have."""
    error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined]
