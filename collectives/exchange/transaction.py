"""Transaction: the step of a compressor in an exchange, from its preparation to its commit or rollback.

    open        the step is prepared, and its exchange goes on
    held        the exchange has succeeded, and the caller of the exchange commits the step or rolls it back
    in doubt    this rank has raised, and other ranks may commit the step; its caller decides later
    closed      the step was committed or rolled back

Everything that can be undone in this package has the same verbs:

    commit      take the step
    rollback    drop it: the state is as before
    hold        leave it open for the caller
    settle      commit it or roll it back, by what the ranks, or the peers of a store, have agreed

An exchange settles its transaction. All ranks settle theirs alike, unless one dies or is interrupted twice.
The caller of an exchange with ``commit=False`` gets a ``Pending``, which has the means and holds the step.

Transactions settle in ``exchange.session``, ``sites.exchange`` and ``cltk.allreduce``. gTop-k and stores
settle a step without one, in ``gtopk.allreduce`` and ``store.sums``. A step that is held is committed in
``torch.parts``, ``torch.fsdp``, ``integrations.torchft`` or ``local_updates.ledger``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from types import TracebackType
from typing import Generic, TypeVar

from wirecodec.interop import OpenStep

T = TypeVar("T")


class State(Enum):
    """State of a transaction."""

    OPEN = "open"
    HELD = "held"
    IN_DOUBT = "in doubt"
    CLOSED = "closed"


class Transaction:
    """Step of a compressor in an exchange.

    Args:
        holds: True to hold the step after a success, False to commit it.
        doubts: True to leave the step in doubt if this rank raises and other ranks may commit theirs.

    Attributes:
        step: of the compressor; None without one.
        state: of the step.
    """

    def __init__(self, *, holds: bool = False, doubts: bool = False) -> None:
        self.holds, self.doubts = holds, doubts
        self.step: OpenStep | None = None
        self.state = State.CLOSED

    def begin(self, step: OpenStep | None) -> None:
        """Begin with a prepared step; without effect for the same one."""
        if step is not None and step is not self.step:
            self.step, self.state = step, State.OPEN

    def settle(self, *, succeeds: bool, is_delivered: bool, may_count: bool) -> None:
        """Settle the step, or hold it; again without effect, after an interrupt.

        Args:
            succeeds: whether this rank raises nothing.
            is_delivered: whether all ranks have what they need to commit.
            may_count: whether other ranks may commit.
        """
        step = self.step
        if step is None or self.state is not State.OPEN:
            return
        if not step.is_open:  # an exchange within this one has rolled it back
            self.state = State.CLOSED
        elif succeeds and self.holds:
            step.hold()
            self.state = State.HELD
        elif self.doubts and may_count and not succeeds:
            self.state = State.IN_DOUBT
        else:
            (step.commit if is_delivered and not self.holds else step.rollback)()
            self.state = State.CLOSED

    @property
    def held(self) -> OpenStep | None:
        """Step that waits for its caller; None if there is none."""
        return self.step if self.state is State.HELD else None


@contextmanager
def settling(settle: Callable[[], None]) -> Iterator[None]:
    """Settle a step after a block, whatever that raises: other ranks settle theirs, also after an interrupt.

    Args:
        settle: is called at the end of the block, and again if anything is raised in the block or by the
            first call. After a call that was completed, it has no effect.
    """
    try:
        try:
            yield
        finally:
            settle()
    except BaseException:
        with suppress(RuntimeError):  # the step was closed before the interrupt, or by another call
            settle()
        raise


class Pending(Generic[T]):
    """Means of an exchange with ``commit=False``, whose step waits for ``commit`` or ``rollback``.

    It is for programs that learn later whether a step counts, such as after a vote of all ranks. All ranks
    decide alike: the next exchange is an error on all ranks if their steps differ.

    As a context manager it commits at the end of the block, or rolls back if the block raises. An object that
    is neither committed nor rolled back when it is deleted is rolled back, with a ResourceWarning.

    Args:
        means: see below.
        step: of a Compressor; None without a state.
        then: is called after a commit.

    Attributes:
        means: as the exchange returns them otherwise.

    Examples:
        >>> import numpy as np, collectives as co, wirecodec as wc
        >>> def train(comm):
        ...     compressor = wc.Compressor("topk(k=1) | rice | raw")
        ...     grad = {"w": np.array([4, 1], np.float32)}
        ...     with co.allreduce(comm, grad, compressor, commit=False) as pending:
        ...         before = compressor.residual("w")
        ...     return pending.means["w"], before, compressor.residual("w")
        >>> co.simulate(2, train)[0]
        (array([4., 0.], dtype=float32), None, array([0., 1.], dtype=float32))
    """

    def __init__(self, means: T, step: OpenStep | None, then: Callable[[], None] = lambda: None) -> None:
        self._step, self._then = step, then
        self._is_open = True
        self.means = means

    @property
    def is_open(self) -> bool:
        """Return whether it was neither committed nor rolled back."""
        return self._is_open

    def commit(self) -> None:
        """Let residuals, the selectors' state and the step advance. Without a state, nothing changes.

        Raises:
            RuntimeError: it was committed or rolled back before.
        """
        self._close("commit")
        self._then()

    def rollback(self) -> None:
        """Leave the state as it was before the exchange, whose means do not count.

        Raises:
            RuntimeError: it was committed or rolled back before.
        """
        self._close("rollback")

    def _close(self, name: str) -> None:
        if not self._is_open:
            raise RuntimeError("this exchange was committed or rolled back before")
        if self._step is not None:
            getattr(self._step, name)()
        self._is_open = False

    def __enter__(self) -> Pending[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open:
            (self.commit if kind is None else self.rollback)()

    def __del__(self) -> None:
        step: OpenStep | None = getattr(self, "_step", None)
        if step is not None and self._is_open and step.is_open:
            warnings.warn(
                "an exchange with commit=False was neither committed nor rolled back; it is rolled back",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            step.rollback()

    def __repr__(self) -> str:
        """Return the state: open or closed."""
        return f"<Pending, {'open' if self._is_open else 'closed'}>"
