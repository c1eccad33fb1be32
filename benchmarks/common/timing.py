"""Timing of calls, and the copy that every time is compared with.

Absolute times drift from machine to machine and from hour to hour. Ratios to ``np.copyto`` of the same array,
measured in the same run, are stable.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["measure_copy_time", "measure_median_time", "measure_minimum_time", "numba_threads"]


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
