"""Work in ranges over threads: kernels release the GIL, so plain threads run them side by side.

Not Numba's ``parallel=True``: of its threading layers one aborts where two Python threads enter it, one after a
fork. As many threads as Numba would take: ``numba.set_num_threads`` where somebody called it, NUMBA_NUM_THREADS
elsewhere. What a range computes must not depend on where it was cut.
"""

from __future__ import annotations

import os
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
    """[work(start, stop), …] over ranges that make up 0 … n, in order; at most one a thread.

    Args:
        work: calls a kernel for the units start … stop - 1. It may be called again for the same ones.
        n: units of work.
        least: units that are worth a thread; fewer than twice as many are done in this one.
    """
    parts = 1 if n < 2 * least else min(thread_count(), n // least)
    if parts > 1:
        cuts = [n * part // parts for part in range(parts + 1)]
        try:
            others = [_pool().submit(work, *cuts[part : part + 2]) for part in range(1, parts)]
        except RuntimeError:  # no thread to be had, or the interpreter is shutting down
            return [work(0, n)]
        return [work(0, cuts[1]), *(other.result() for other in others)]
    return [work(0, n)]


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
