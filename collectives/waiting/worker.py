"""Worker: a thread that runs functions in the order in which they were submitted."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

__all__ = ["Worker"]


class Worker:
    """Thread that runs one function after another; it starts with the first one.

    The thread does not keep the program alive. A function handles its own exceptions.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._functions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[], None]) -> None:
        """Run a function after those that were submitted before."""
        self._functions.put(function)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._functions.get()()
