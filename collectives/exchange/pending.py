"""Pending: the result of an exchange whose step the caller commits or rolls back."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Step(Protocol):
    """Step of a state that is open."""

    @property
    def is_open(self) -> bool:
        """Whether the step was neither committed nor rolled back."""
        ...

    def commit(self) -> None:
        """Take the step."""
        ...

    def rollback(self) -> None:
        """Drop the step."""
        ...


class Pending(Generic[T]):
    """Means of an exchange with ``commit=False``, whose step waits for ``commit`` or ``rollback``.

    It is for programs that learn later whether a step counts, such as after a vote of all ranks. All ranks
    decide alike: the next exchange is an error on all ranks if their steps differ.

    As a context manager it commits at the end of the block, or rolls back if the block raises. An object that
    is neither committed nor rolled back when it is deleted is rolled back, with a ResourceWarning.

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

    def __init__(self, means: T, step: Step | None) -> None:
        self._step = step
        self._is_open = True
        self.means = means

    @property
    def is_open(self) -> bool:
        """Whether it was neither committed nor rolled back."""
        return self._is_open

    def commit(self) -> None:
        """Let residuals, the selectors' state and the step advance. Without a state, nothing changes.

        Raises:
            RuntimeError: it was committed or rolled back before.
        """
        self._close("commit")

    def rollback(self) -> None:
        """Leave the state as it was before the exchange, whose means do not count.

        Raises:
            RuntimeError: it was committed or rolled back before.
        """
        self._close("rollback")

    def detach(self) -> Step | None:
        """Return the step, still open; this object can no longer commit it or roll it back."""
        self._is_open, step, self._step = False, self._step, None
        return step

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
        step: Any = getattr(self, "_step", None)
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
