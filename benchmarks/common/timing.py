"""Timing of calls, and the copy that every time is compared with.

Absolute times drift from machine to machine and from hour to hour. Ratios to ``np.copyto`` of the same array,
measured in the same run, are stable.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "CallTime",
    "measure_copy_time",
    "measure_in_turns",
    "measure_median_time",
    "measure_minimum_time",
    "numba_threads",
]


@dataclass(frozen=True)
class CallTime:
    """Shortest times of a call.

    Attributes:
        seconds: elapsed time.
        processor: seconds of processor time of all threads; other programs affect it less.
    """

    seconds: float
    processor: float


def measure_median_time(call: Callable[[], Any], *, budget: float = 0.5, min_calls: int = 5) -> float:
    """Measure the median time of a call in seconds, after one warm-up call.

    Args:
        call: the function to time.
        budget: approximate seconds to spend.
        min_calls: calls to make even if the budget is exceeded.
    """
    call()
    times: list[float] = []
    stop = time.perf_counter() + budget
    while len(times) < min_calls or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure_minimum_time(call: Callable[[], Any], *, budget: float = 0.5, min_calls: int = 5) -> float:
    """Measure the shortest time of a call in seconds, after one warm-up call.

    The minimum excludes interference from other programs.

    Args:
        call: the function to time.
        budget: approximate seconds to spend.
        min_calls: calls to make even if the budget is exceeded.
    """
    call()
    best = math.inf
    stop = time.perf_counter() + budget
    while min_calls > 0 or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        min_calls -= 1
    return best


def measure_in_turns(
    calls: Sequence[Callable[[], Any]], *, budget: float = 0.5, min_calls: int = 5
) -> list[CallTime]:
    """Measure the shortest times of each call, after one warm-up call.

    The calls take turns, so that a busy minute affects all of them.

    Args:
        calls: the functions to time.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    for call in calls:
        call()
    best = np.full((len(calls), 2), math.inf)
    stop = time.perf_counter() + budget * len(calls)
    while min_calls > 0 or time.perf_counter() < stop:
        for times, call in zip(best, calls, strict=True):
            start, used = time.perf_counter(), time.process_time()
            call()
            used, end = time.process_time() - used, time.perf_counter()
            times[:] = min(times[0], end - start), min(times[1], used)
        min_calls -= 1
    return [CallTime(float(seconds), float(processor)) for seconds, processor in best]


def measure_copy_time(x: npt.NDArray[Any], *, budget: float = 0.2) -> float:
    """Measure the median time of ``np.copyto`` of ``x`` into allocated memory: one read and one write."""
    target = np.empty_like(x)
    target[...] = x
    return measure_median_time(lambda: np.copyto(target, x), budget=budget)


@contextmanager
def numba_threads(count: int) -> Iterator[None]:
    """Run Numba's parallel kernels on ``count`` threads inside the ``with`` block."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)
