"""Times in reads of the array.

One *read* is the time to sum the magnitudes of as many bytes of float32. It is measured in turns with the
calls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

__all__ = ["Reads", "measure_reads", "sum_magnitudes"]


@numba.njit(fastmath=True, nogil=True)  # type: ignore[untyped-decorator]
def sum_magnitudes(x: Any) -> Any:
    """Sum the magnitudes of an array: one read."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += abs(x[i])
    return total


@dataclass(frozen=True)
class Reads:
    """Times of some calls.

    Attributes:
        times: of each call, in reads.
        seconds: of one read.
    """

    times: list[float]
    seconds: float


def measure_reads(
    x: Any, calls: Sequence[Callable[[], Any]], *, budget: float = 0.3, min_calls: int = 3
) -> Reads:
    """Measure the median time of each call in reads of ``x``.

    Args:
        x: the array that defines a read.
        calls: run in turns with each other and with the read.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    y = x if x.dtype == np.float32 else np.ones(x.nbytes // 4, np.float32)
    turns = (lambda: sum_magnitudes(y), *calls)
    times: list[list[float]] = [[] for _ in turns]
    for call in turns:
        call()  # compile kernels outside the measured time
    stop = time.perf_counter() + budget * len(calls)
    while len(times[0]) < min_calls or time.perf_counter() < stop:
        for call, seconds in zip(turns, times, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    read, *medians = map(statistics.median, times)
    return Reads([median / read for median in medians], read)
