"""Units of work over threads: kernels release the GIL, so plain threads run them side by side.

Not Numba's ``parallel=True``: of its threading layers one aborts where two Python threads enter it, one after
a fork. As many threads as Numba would take: ``numba.set_num_threads`` where somebody called it, elsewhere
NUMBA_NUM_THREADS. A kernel takes unit after unit from ``turns``, which all threads share, so that one that
wakes up late, or on a busy processor, costs nothing:

    unit = next_unit(turns, -1)
    while unit >= 0:
        ...  # writes what belongs to this unit
        unit = next_unit(turns, unit)

A thread that found no more units stays awake, in the kernel, for a fraction of a millisecond: waking up and
waiting for the GIL take as long as encoding 100 000 indices.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.np.ufunc import parallel

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector_type import llvm_intrinsic

__all__ = ["map_ranges", "next_unit", "run_parallel", "thread_count"]

T = TypeVar("T")

NEXT, END, UNFINISHED, CALLER_WAITS = 0, 1, 2, 3
"""Of ``turns``: the next unit, the one after the last, units not yet done, whether there is other work."""

MAX_POLLS, POLLS_AFTER_CALL = 25_000, 300
"""Looks at a counter: 0.2 ms; 2 µs, in which the caller leaves the GIL."""


def thread_count() -> int:
    """Threads that kernels may use; asking does not start Numba's own."""
    count: int = numba.get_num_threads() if parallel._is_initialized else numba.config.NUMBA_NUM_THREADS
    return count


@llvm_intrinsic
def _add(typing_context: Any, counters: Any, i: Any, amount: Any) -> Any:
    """What counter i held before ``amount`` was added to it, in one step for all threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", builder.gep(made.data, [arguments[1]]), arguments[2], "seq_cst")

    return types.int64(counters, types.intp, types.int64), generate


@inline
def next_unit(turns: Array, unit: int) -> int:
    """The unit to do now that ``unit`` is done, -1 before the first; -1 where none is left."""
    if unit >= 0:
        _add(turns, UNFINISHED, -1)
    unit = _add(turns, NEXT, 1)
    if unit < turns[END]:
        return unit
    if turns.size == CALLER_WAITS:  # the caller's: it waits for what others took, but not for long
        looks = 0
        while _add(turns, UNFINISHED, 0) > 0 and looks < MAX_POLLS:
            looks += 1
    else:
        looks = 0
        while _add(turns, CALLER_WAITS, 0) == 0 and looks < MAX_POLLS:
            looks += 1
        for _ in range(POLLS_AFTER_CALL):
            _add(turns, CALLER_WAITS, 0)
    return -1


def run_parallel(work: Callable[[Array], object], units: int, least: int) -> None:
    """Have units 0 … units - 1 done, in this thread and others.

    Args:
        work: calls a kernel with ``turns``, which writes what it finds; an exception of it is raised here.
        units: how many.
        least: units that are worth a thread, 50 µs or more; fewer than twice as many are done in this one.
    """
    turns = np.array((0, units, units, 0), np.int64)
    job = None
    if units >= 2 * least and (count := min(thread_count(), units // least)) > 1:
        job = _Job(work, turns)
        _helpers.call(count - 1, job)
    try:
        work(turns[:CALLER_WAITS])
    except BaseException:
        turns[NEXT] = units  # the others need not go on
        raise
    if job is not None:
        job.finish()


@kernel
def _next_unit(turns: Array, unit: int) -> int:
    """``next_unit`` for Python."""
    return next_unit(turns, unit)


def map_ranges(work: Callable[[int, int], T], n: int, least: int) -> list[T]:
    """[work(start, stop), …] over ranges that make up 0 … n, in order, for kernels that take no turns.

    Args:
        work: calls a kernel for the units start … stop - 1; an exception of it is raised here.
        n: units of work.
        least: units that are worth a thread, 50 µs or more; fewer than twice as many are done in this one.
    """
    if n < 2 * least or (count := thread_count()) == 1:
        return [work(0, n)]
    parts = min(n // max(1, least // 2), 8 * count)
    done: dict[int, T] = {}

    def some(turns: Array) -> None:
        part = _next_unit(turns, -1)
        while part >= 0:
            done[part] = work(n * part // parts, n * (part + 1) // parts)
            part = _next_unit(turns, part)

    run_parallel(some, parts, 1)
    return [done[part] for part in range(parts)]


class _Job:
    """Work that others may join until its units are taken."""

    def __init__(self, work: Callable[[Array], object], turns: Array) -> None:
        self._work: Callable[[Array], object] | None = work
        self._error: BaseException | None = None
        self.turns = turns

    def join(self) -> None:
        """Do units until none is left; nothing where the caller has finished."""
        if (work := self._work) is not None:
            try:
                work(self.turns)
            except BaseException as error:
                self._error = error

    def finish(self) -> None:
        """Wait until all units are done, and let go of the caller's arrays."""
        while self.turns[UNFINISHED] > 0 and self._error is None:
            time.sleep(1e-4)
        self._work = None
        if self._error is not None:
            raise self._error


class _Helpers:
    """Threads that wait for jobs; made on first use, anew in a forked child, and gone at exit."""

    def __init__(self) -> None:
        self.forget()
        self._open = True

    def forget(self) -> None:
        """Begin without threads: the parent's are not this process's."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._latest = np.zeros(CALLER_WAITS + 1, np.int64)

    def call(self, count: int, job: _Job) -> None:
        """Ask ``count`` threads to join a job."""
        if not self._open:
            return
        while len(self._threads) < count:
            thread = threading.Thread(target=_serve, args=(self._jobs,), name="wirecodec", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more to be had
                break
            self._threads.append(thread)
        for _ in self._threads[:count]:
            self._jobs.put(job)
        self._latest[CALLER_WAITS] = 1
        self._latest = job.turns

    def close(self) -> None:
        """End all threads, while the interpreter can."""
        self._open = False
        for _ in self._threads:
            self._jobs.put(None)
        self._latest[CALLER_WAITS] = 1
        for thread in self._threads:
            thread.join()


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.join()
        del job


_helpers = _Helpers()
atexit.register(_helpers.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)
