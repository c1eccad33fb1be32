"""Work in ranges over threads: kernels release the GIL, so plain threads run them side by side.

Not Numba's ``parallel=True``: of its threading layers one aborts where two Python threads enter it, one after
a fork. As many threads as Numba would take: ``numba.set_num_threads`` where somebody called it, elsewhere
NUMBA_NUM_THREADS. What is computed must not depend on where it was cut.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba
from numba.np.ufunc import parallel

__all__ = ["in_ranges", "thread_count"]

T = TypeVar("T")


def thread_count() -> int:
    """Threads that kernels may use; asking does not start Numba's own."""
    count: int = numba.get_num_threads() if parallel._is_initialized else numba.config.NUMBA_NUM_THREADS
    return count


def in_ranges(work: Callable[[int, int], T], n: int, least: int) -> list[T]:
    """[work(start, stop), …] over ranges that make up 0 … n, in order.

    Ranges are taken by whoever is free: a thread that wakes up late, or on a busy processor, costs nothing.

    Args:
        work: calls a kernel for the units start … stop - 1; an exception of it is raised here.
        n: units of work.
        least: units that are worth a thread, 50 µs or more; fewer than twice as many are done in this one.
    """
    if n < 2 * least or (count := thread_count()) == 1:
        return [work(0, n)]
    parts = min(n // max(1, least // 2), 8 * count)
    todo = deque((part, n * part // parts, n * (part + 1) // parts) for part in range(parts))
    done: dict[int, T] = {}

    def take() -> None:
        while True:
            try:
                part, start, stop = todo.popleft()
            except IndexError:
                return
            done[part] = work(start, stop)

    helpers = []
    with contextlib.suppress(RuntimeError):  # no thread to be had, or the interpreter is shutting down
        for _ in range(min(count, parts) - 1):
            helpers.append(_pool().submit(take))
    take()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
    return [done[part] for part in range(parts)]


class _Pool:
    """Threads that wait for work; made on first use, and anew in a forked child."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def __call__(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS, "wirecodec")
        return self._executor

    def forget(self) -> None:
        """The threads of the parent are not this process's."""
        self._executor = None


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
