"""Functions that no signal handler interrupts: Python runs handlers in the main thread only.

An exception of a handler, such as KeyboardInterrupt, can be raised between any two instructions of the main
thread. There are functions that leave something broken then: Numba remains half imported, llvmlite's lock
remains taken, and a request is lost that a communicator has begun. Such a function runs in another thread.
"""

from __future__ import annotations

import _thread
import contextvars
import importlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Latch:
    """Event that one thread sets once, for waits that an interrupt may end.

    An interrupt in ``threading.Event.wait`` can leave its lock taken. The thread that sets the event then
    waits for ever. The lock of a latch is taken and freed by single instructions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether the latch was set."""
        return self._is_set

    def set(self) -> None:
        """End all waits; call it once, and if other threads wait, where no interrupt comes."""
        self._is_set = True
        self._lock.release()

    def wait(self) -> None:
        """Wait until the latch is set."""
        if not self._is_set:
            with self._lock:
                pass

    def wait_for(self, seconds: float) -> bool:
        """Wait until the latch is set, but no longer than a time; return whether it is set.

        Only one thread waits so: an interrupt after the wait leaves the lock taken, which hurts no later
        wait, because the latch is set by then.
        """
        if not self._is_set and self._lock.acquire(timeout=max(0.0, seconds)):
            self._lock.release()
        return self._is_set


def run_uninterrupted(
    function: Callable[[], T], submit: Callable[[Callable[[], None]], object] | None = None
) -> T:
    """Run a function where no signal handler interrupts it, and return its result or raise its error.

    An exception of a handler is raised after the function has returned, or before it has begun. A second one
    is raised at once; the function goes on then. Outside the main thread, the function is just called.

    Args:
        function: has the context variables of the caller.
        submit: runs a function in another thread; None for a new thread.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return function()
    task = Task(contextvars.copy_context(), function)
    try:
        (submit or start_thread)(task.run)
        task.wait()
    except BaseException:
        if not task.withdraw():
            task.wait()
        raise
    return task.get()


def import_uninterrupted(name: str) -> Any:
    """Import a module by its full name, and return it. A package that is half imported cannot be repaired."""
    return run_uninterrupted(partial(importlib.import_module, name))


class Task(Generic[T]):
    """Call of a function in another thread, which a waiting thread can withdraw before it begins."""

    def __init__(self, context: contextvars.Context, function: Callable[[], T]) -> None:
        self._context = context
        self._function = function
        self._begun, self._end = threading.Lock(), Latch()
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function, unless the task was withdrawn."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._results.append(self._context.run(self._function))
        except BaseException as error:  # raised in the thread that waits
            self._error = error
        finally:
            self._end.set()

    def withdraw(self) -> bool:
        """Keep the task from running; return False if it has begun, and goes on."""
        return self._begun.acquire(blocking=False)

    def wait(self) -> None:
        """Wait for the end of the function."""
        self._end.wait()

    def get(self) -> T:
        """Return the result of a finished task, or raise its error."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # which refers to this frame
        return self._results.pop()


def start_thread(function: Callable[[], None]) -> None:
    """Start a thread. ``threading.Thread.start`` can turn an interrupt into a RuntimeError."""
    _thread.start_new_thread(function, ())
