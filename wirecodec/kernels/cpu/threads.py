"""Units of work on threads: kernels release the GIL, so plain threads run them in parallel.

Numba's ``parallel=True`` is not used: one of its threading layers aborts if two Python threads enter it,
another after a fork. The number of threads is Numba's: ``numba.set_num_threads`` if it was called, else
NUMBA_NUM_THREADS.

A kernel takes one unit after another from ``turns``, which all threads share. A thread that wakes up late or
runs on a busy processor therefore takes fewer:

    unit = next_unit(turns, -1)
    while unit >= 0:
        ...  # writes the results of this unit
        unit = next_unit(turns, unit)

A thread that flushes denormal numbers to zero runs all units itself, because other threads keep them, and
which thread takes a unit must not matter.

A thread that finds no more units stays awake, in the kernel, for a fraction of a millisecond. Waking up and
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
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.vector_type import llvm_intrinsic
from wirecodec.kernels.denormals import flushes_denormals

T = TypeVar("T")

NEXT, END, UNFINISHED, CALLER_WAITS = 0, 1, 2, 3
"""Fields of ``turns``: next unit, number of units, unfinished units, and whether there is other work."""

MAX_POLLS, POLLS_AFTER_CALL = 25_000, 300
"""Polls of a counter: 0.2 ms; and 2 µs, in which the caller releases the GIL."""

MAX_EXIT_SECONDS = 30.0
"""Longest wait for threads at exit; one of them may be compiling for 20 s."""


def thread_count() -> int:
    """Return the number of threads that kernels may use, without starting Numba's own."""
    count: int = numba.get_num_threads() if parallel._is_initialized else numba.config.NUMBA_NUM_THREADS
    return count


@llvm_intrinsic
def _add(typing_context: Any, counters: Any, i: Any, amount: Any) -> Any:
    """Add ``amount`` to counter i atomically; return its value before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", builder.gep(made.data, [arguments[1]]), arguments[2], "seq_cst")

    return types.int64(counters, types.intp, types.int64), generate


@inline
def next_unit(turns: Array, unit: int) -> int:
    """Return the unit to do after ``unit`` is done (-1 before the first), or -1 if none is left."""
    if unit >= 0:
        _add(turns, UNFINISHED, -1)
    unit = _add(turns, NEXT, 1)
    if unit < turns[END]:
        return unit
    if turns.size == CALLER_WAITS:  # the caller waits briefly for the units of others
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


@inline
def sole_turns(units: int) -> Array:
    """Return the ``turns`` of a kernel that this thread calls for all units."""
    turns = np.empty(CALLER_WAITS, np.int64)
    turns[NEXT], turns[END], turns[UNFINISHED] = 0, units, units
    return turns


def run_parallel(work: Callable[[Array], object], units: int, least: int) -> None:
    """Run units 0 ... units - 1 in this thread and others.

    Args:
        work: calls a kernel with ``turns``; its exceptions are raised here.
        units: number of units.
        least: units that take at least 50 µs; fewer than twice as many run in this thread alone.
    """
    count = 1 if units < 2 * least else min(thread_count(), units // least)
    if count == 1 or flushes_denormals():
        work(np.array((0, units, units), np.int64))
        return
    turns = np.array((0, units, units, 0), np.int64)
    job = _Job(work, turns)
    _helpers.call(count - 1, job)
    try:
        work(turns[:CALLER_WAITS])
    except BaseException:
        turns[NEXT] = units  # stops the other threads
        job.close()  # a thread that has not begun would still compile the kernel
        raise
    job.finish()


def least_units(items_per_thread: int, units: int, items: int) -> int:
    """Return ``least`` of ``run_parallel`` for units that have ``items`` items together.

    Args:
        items_per_thread: items that take at least 50 µs.
        units: number of units.
        items: number of items of all units.
    """
    return max(1, items_per_thread * units // max(1, items))


@kernel
def _next_unit(turns: Array, unit: int) -> int:
    """Call ``next_unit`` from Python."""
    return next_unit(turns, unit)


def map_ranges(work: Callable[[int, int], T], n: int, least: int) -> list[T]:
    """Return [work(start, stop), ...] over ranges that partition 0 ... n, in order.

    For kernels that take no units from ``turns``.

    Args:
        work: calls a kernel for the units start ... stop - 1; its exceptions are raised here.
        n: number of units.
        least: units that take at least 50 µs; fewer than twice as many run in this thread alone.
    """
    if n < 2 * least or (count := thread_count()) == 1:
        return [work(0, n)]
    parts = min(n // max(1, least // 2), 8 * count)
    results: dict[int, T] = {}

    def run_parts(turns: Array) -> None:
        part = _next_unit(turns, -1)
        while part >= 0:
            results[part] = work(n * part // parts, n * (part + 1) // parts)
            part = _next_unit(turns, part)

    run_parallel(run_parts, parts, 1)
    return [results[part] for part in range(parts)]


class _Job:
    """Work that other threads may join until its units are taken."""

    def __init__(self, work: Callable[[Array], object], turns: Array) -> None:
        self._work: Callable[[Array], object] | None = work
        self._error: BaseException | None = None
        self.turns = turns

    def join(self) -> None:
        """Do units until none is left; return at once if the caller has finished."""
        if (work := self._work) is not None:
            try:
                work(self.turns)
            except BaseException as error:
                self._error = error

    def finish(self) -> None:
        """Wait until all units are done, and release the caller's arrays."""
        while self.turns[UNFINISHED] > 0 and self._error is None:
            time.sleep(1e-4)
        self.close()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Release the caller's arrays, and let no further thread begin."""
        self._work = None


class _Helpers:
    """Threads that wait for jobs; started on first use, again in a forked child, and ended at exit."""

    def __init__(self) -> None:
        self.forget()
        self._open = True

    def forget(self) -> None:
        """Start without threads: a forked child does not have its parent's."""
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
            except RuntimeError:  # the system allows no more threads
                break
            self._threads.append(thread)
        for _ in self._threads[:count]:
            self._jobs.put(job)
        self._latest[CALLER_WAITS] = 1
        self._latest = job.turns

    def close(self) -> None:
        """End all threads while the interpreter still can.

        A thread may wait forever for Numba's compiler lock: an interrupt can leave it locked. The interpreter
        ends such a thread.
        """
        self._open = False
        for _ in self._threads:
            self._jobs.put(None)
        self._latest[CALLER_WAITS] = 1
        end = time.monotonic() + MAX_EXIT_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.join()
        del job


_helpers = _Helpers()
atexit.register(_helpers.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)
