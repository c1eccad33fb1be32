"""Transaction: the step of a compressor in an exchange, from its preparation to its commit or rollback.

    open        the step is prepared, and its exchange goes on
    held        the exchange has succeeded, and the caller of the exchange commits the step or rolls it back
    in doubt    this rank has raised, and other ranks may commit the step; its caller decides later
    closed      the step was committed or rolled back

An exchange ends its transaction. All ranks end theirs alike, unless one dies or is interrupted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from wirecodec.interop import OpenStep


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

    def end(self, *, succeeds: bool, is_delivered: bool, may_count: bool) -> None:
        """End the exchange; again without effect, after an interrupt.

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
def concluding(conclude: Callable[[], None]) -> Iterator[None]:
    """Conclude a block, whatever it raises: other ranks have decided, so an interrupt must not prevent that.

    Args:
        conclude: is called at the end of the block, and again if anything is raised in the block or by the
            first call. After a call that was completed, it has no effect.
    """
    try:
        try:
            yield
        finally:
            conclude()
    except BaseException:
        with suppress(RuntimeError):  # the step was closed before the interrupt, or by another call
            conclude()
        raise
