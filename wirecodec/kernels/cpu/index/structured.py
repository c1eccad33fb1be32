"""Kernels that find the structure of a support (formats/spec/index/structured.md): runs and grains.

A support is a list of runs of present elements, [start, stop). The complement and the grain are computed from
the runs, so that only counting and finding the runs reads every index.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

U32 = np.uint32
LONG_RUNS_PERCENT = 80
"""A support has long runs if it has at most this percentage of the runs of a uniform one."""


@kernel
def count_breaks(indices: Array) -> int:
    """Count the (n,) u32 ``indices`` after the first that do not follow directly on the one before."""
    breaks = 0
    for start in range(1, indices.size, 4096):
        now = indices[start : start + 4096]
        before = indices[start - 1 : start - 1 + now.size]
        count = U32(0)
        for i in range(now.size):
            count = U32(count + U32(U32(now[i] - before[i]) != U32(1)))
        breaks += np.int64(count)
    return breaks


@kernel
def find_runs(indices: Array, starts: Array, stops: Array) -> None:
    """Find the runs of ``indices``; ``starts`` and ``stops`` are (runs + 1,) u32, written."""
    r = indices.size
    starts[0] = indices[0]
    n = 0
    for i in range(1, r):
        # Always written, and kept only if a run ends here.
        stops[n] = indices[i - 1] + U32(1)
        starts[n + 1] = indices[i]
        n += U32(indices[i] - indices[i - 1]) != U32(1)
    stops[n] = indices[r - 1] + U32(1)


@kernel
def find_grain(starts: Array, stops: Array, d: int) -> tuple[int, int]:
    """Find the greatest grain g such that all run boundaries strictly between 0 and d are p + g·i.

    Returns:
        (g, p) with p < g, or (1, 0) if there are fewer than two such boundaries.
    """
    origin = np.int64(0)
    g = np.int64(0)
    for i in range(2 * starts.size):
        end = np.int64(stops[i >> 1] if i & 1 else starts[i >> 1])
        if end in (0, d):
            continue
        if origin == 0:
            origin = end
            continue
        a = end - origin
        while a:
            g, a = a, g % a
        if g == 1:
            break
    if g <= 1:
        return 1, 0
    return g, origin % g


@kernel
def expand_runs(starts: Array, stops: Array, out: Array) -> None:
    """List the numbers of all runs in ``out``, which is exactly as long."""
    n = 0
    for i in range(starts.size):
        first = starts[i]
        run = out[n : n + np.int64(stops[i]) - np.int64(first)]
        for j in range(run.size):
            run[j] = first + U32(j)
        n += run.size


@kernel
def split_runs(starts: Array, stops: Array, absent: Array, present: Array) -> None:
    """Convert runs to two ascending sequences.

    Args:
        starts: (n,) u32.
        stops: (n,) u32.
        absent: (n,) u32, written: the count of absent numbers before each run.
        present: (n,) u32, written: the count of present numbers before each run's end, minus 1.
    """
    before = U32(0)
    for i in range(starts.size):
        absent[i] = starts[i] - before
        before += U32(stops[i] - starts[i])
        present[i] = before - U32(1)
