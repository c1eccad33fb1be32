"""Time of a call on a GPU, and its input."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["draw_laplace", "measure_event_time", "measure_host_time"]

CALLS, WARM_UP_CALLS, FEWEST_CALLS = 20, 3, 3
SECONDS = 0.25
"""Time of the calls, beyond which only ``FEWEST_CALLS`` are made."""


def measure_event_time(cupy: Any, call: Callable[[], object]) -> float:
    """Measure the median time of a call in milliseconds, with CUDA events.

    A slow call is made three times, after one call to warm up.
    """

    def measure() -> float:
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, stop))

    return repeat(measure)


def measure_host_time(cupy: Any, call: Callable[[], object]) -> float:
    """Measure the median time of a call in milliseconds, on the host's clock, until the device is idle."""
    wait = cupy.cuda.runtime.deviceSynchronize

    def measure() -> float:
        wait()
        start = time.perf_counter()
        call()
        wait()
        return 1000 * (time.perf_counter() - start)

    return repeat(measure)


def repeat(measure: Callable[[], float]) -> float:
    """Return the median of repeated measurements."""
    begin = time.perf_counter()
    for _ in range(WARM_UP_CALLS):
        measure()
        if time.perf_counter() - begin > SECONDS:
            break
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < FEWEST_CALLS or (len(times) < CALLS and time.perf_counter() - begin < SECONDS):
        times.append(measure())
    return statistics.median(times)


def draw_laplace(cupy: Any, size: int) -> Any:
    """Draw float32 Laplace values on the device, with few ties: from float64."""
    return cupy.random.RandomState(0).laplace(size=size).astype(np.float32)
