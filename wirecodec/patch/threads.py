"""Work on many tensors, on all threads that kernels may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from wirecodec.kernels.uninterrupted import Task, start_thread

T = TypeVar("T")
R = TypeVar("R")


def thread_count() -> int:
    """Return the number of threads that kernels may use."""
    from wirecodec.kernels.cpu import threads  # it imports Numba

    return threads.thread_count()


def map_in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply a function on all threads that kernels may use, and yield the results in order.

    No thread works on after an exception. After an interrupt, Python's own pool can wait for ever: its waits
    leave a lock taken.
    """
    listed = list(items)
    threads = min(thread_count(), len(listed))
    if threads < 2:
        yield from map(function, listed)
        return
    tasks = [Task(copy_context(), partial(function, item)) for item in listed]
    waiting: SimpleQueue[Task[Any] | None] = SimpleQueue()
    for task in [*tasks, *[None] * threads]:
        waiting.put(task)
    try:
        for _ in range(threads):
            start_thread(partial(_serve, waiting))
        for task in tasks:
            task.wait()
            yield task.get()
    finally:
        for task in [task for task in tasks if not task.withdraw()]:
            task.wait()


def _serve(waiting: SimpleQueue[Task[Any] | None]) -> None:
    """Run tasks up to None."""
    while (task := waiting.get()) is not None:
        task.run()
