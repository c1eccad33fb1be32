"""Worker: a thread that runs functions in the order in which they were submitted."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from wirecodec.interop import Latch, flushes_denormals, run_uninterrupted

EXIT_WAIT = 1.0  # seconds for which the end of the program waits for all threads together

_Functions: TypeAlias = "queue.SimpleQueue[tuple[Callable[[], object], bool] | None]"
"""Functions to run in this order, and whether their callers flush denormal numbers; None ends the thread."""


class Worker:
    """Thread that runs one function after another; it starts with the first one.

    The thread ends if this object is collected and all functions have run. It keeps no function, and nothing
    that a function refers to, after the function has run. A forked process gets a thread of its own;
    functions that were submitted before the fork run in the parent alone. A function handles its own
    exceptions; others are printed.

    Args:
        name: of the thread.
        unblock: makes a function return that waits for ever, at the end of the program; it must not refer to
            the owner of this object. None if there is no way.
    """

    def __init__(self, name: str, unblock: Callable[[], None] | None = None) -> None:
        self._name = name
        self._unblock = unblock
        self._queues: dict[int, _Functions] = {}  # by process

    @property
    def has_started(self) -> bool:
        """Return whether a function was submitted in this process."""
        return os.getpid() in self._queues

    def submit(self, function: Callable[[], object]) -> None:
        """Run a function after those that were submitted before."""
        process = os.getpid()
        functions = self._queues.get(process) or run_uninterrupted(partial(self._start, process))
        functions.put((function, computes_flushed()))

    def drain(self) -> None:
        """Wait until all that was submitted has run."""
        if self.has_started:
            done = Latch()
            self.submit(done.set)
            done.wait()

    def _start(self, process: int) -> _Functions:
        """Start the thread of this process, unless another thread does; return its queue."""
        mine: _Functions = queue.SimpleQueue()
        functions = self._queues.setdefault(process, mine)
        if functions is mine:
            try:
                _Thread(self._name, mine, self._unblock).start()
            except BaseException:  # nothing would run what is put there
                del self._queues[process]
                raise
            weakref.finalize(self, mine.put, None).atexit = False
        return functions


class _Thread(threading.Thread):
    """Thread that runs the functions of a queue. It does not refer to the Worker, which can be collected."""

    def __init__(self, name: str, functions: _Functions, unblock: Callable[[], None] | None) -> None:
        super().__init__(name=name, daemon=True)
        self.functions = functions
        self.unblock = unblock
        self.caller_flushes = False

    def run(self) -> None:
        """Run functions up to None."""
        while (item := self.functions.get()) is not None:
            function, self.caller_flushes = item
            del item
            try:
                function()
            except BaseException:  # reported; later functions run
                traceback.print_exc()
            del function  # else it would live until the next one


def in_worker() -> bool:
    """Return whether this is the thread of a Worker."""
    return isinstance(threading.current_thread(), _Thread)


def computes_flushed() -> bool:
    """Return whether this thread flushes denormal numbers, or the one that submitted what it runs does.

    That one computes with the results.
    """
    return flushes_denormals() or getattr(threading.current_thread(), "caller_flushes", False)


@atexit.register
def _end_threads() -> None:
    """End all threads, but wait no longer than EXIT_WAIT: a function may never return.

    If a function returns from C++ while Python ends, as from a store of torch, C++ aborts the process.
    """
    threads = [one for one in threading.enumerate() if isinstance(one, _Thread) and one.is_alive()]
    for thread in threads:
        thread.functions.put(None)
    _join(threads, EXIT_WAIT / 2)
    for thread in threads:
        if thread.is_alive() and thread.unblock is not None:
            thread.unblock()
    _join(threads, EXIT_WAIT / 2)


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait until all threads have ended, but not longer than a number of seconds."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
