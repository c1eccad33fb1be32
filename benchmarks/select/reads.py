"""Times in *reads*: one sum of magnitudes over as many bytes of float32 takes turns with what is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

__all__ = ["Reads", "absolute_sum", "reads"]


@numba.njit(fastmath=True, nogil=True)  # type: ignore[untyped-decorator]
def absolute_sum(x: Any) -> Any:
    """One read."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += abs(x[i])
    return total


@dataclass(frozen=True)
class Reads:
    """What some calls took.

    Attributes:
        times: of each call, in reads.
        read: seconds of one.
    """

    times: list[float]
    read: float


def reads(x: Any, calls: Sequence[Callable[[], Any]], *, budget: float = 0.3, least: int = 3) -> Reads:
    """The median time of each call in reads of ``x``, which take turns with them, medians as well.

    Args:
        x: the array that is read.
        calls: that take turns.
        budget: seconds for each of them, about.
        least: how often each is called at least.
    """
    y = x if x.dtype == np.float32 else np.ones(x.nbytes // 4, np.float32)
    every = (lambda: absolute_sum(y), *calls)
    times: list[list[float]] = [[] for _ in every]
    for call in every:
        call()  # compiled now, if not before
    stop = time.perf_counter() + budget * len(calls)
    while len(times[0]) < least or time.perf_counter() < stop:
        for call, taken in zip(every, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    unit, *others = map(statistics.median, times)
    return Reads([other / unit for other in others], unit)
