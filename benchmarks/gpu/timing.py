"""Time of a call on a GPU, and its input."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["draw_laplace", "measure_event_time"]

CALLS, WARM_UP_CALLS = 20, 3


def measure_event_time(cupy: Any, call: Callable[[], object]) -> float:
    """Measure the median time of a call in milliseconds, with CUDA events."""
    for _ in range(WARM_UP_CALLS):
        call()
    times = []
    for _ in range(CALLS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, stop)))
    return statistics.median(times)


def draw_laplace(cupy: Any, size: int) -> Any:
    """Draw float32 Laplace values on the device, with few ties: from float64."""
    return cupy.random.RandomState(0).laplace(size=size).astype(np.float32)
