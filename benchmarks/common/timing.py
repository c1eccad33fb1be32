"""What every benchmark needs: medians, least times, a copy of the same run to hold them against, numbers of
threads, the machine's name, tables that are kept.

Absolute times drift from machine to machine and hour to hour; ratios to ``np.copyto`` of the same array,
measured in the same run, do not.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RESULTS = Path(__file__).parents[1] / "results"


def median_time(call: Callable[[], Any], *, budget: float = 0.5, least: int = 5) -> float:
    """Median seconds of a call, warmed up, over at least ``least`` calls and about ``budget`` seconds."""
    call()
    times: list[float] = []
    stop = time.perf_counter() + budget
    while len(times) < least or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def least_time(call: Callable[[], Any], *, budget: float = 0.5, least: int = 5) -> float:
    """Least seconds of a call, warmed up: what it takes while nobody else works, in the long run."""
    call()
    best = math.inf
    stop = time.perf_counter() + budget
    while least > 0 or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        least -= 1
    return best


def copy_time(x: npt.NDArray[Any], *, budget: float = 0.2) -> float:
    """Median seconds of ``np.copyto`` of ``x`` into memory that is there already: one read and one write."""
    target = np.empty_like(x)
    target[...] = x
    return median_time(lambda: np.copyto(target, x), budget=budget)


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Numba's kernels on ``count`` threads."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def machine() -> str:
    """The processor, the cores this process may use, and the versions that matter."""
    import numba

    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}"
    return f"{name}, {cores} cores; {versions}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def keep(name: str, title: str, text: str) -> Path:
    """Write results/NAME.md: the title, the machine, the text."""
    path = RESULTS / f"{name}.md"
    path.write_text(f"# {title}\n\n{machine()}\n\n{text}")
    return path
