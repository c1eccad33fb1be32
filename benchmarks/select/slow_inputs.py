"""Inputs that are meant to be slow for exact top-k, and some that are meant to mislead its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numba
import numpy as np

import wirecodec as wc
from benchmarks.common.timing import on_threads
from benchmarks.select.contenders import DENSITIES
from benchmarks.select.reads import reads
from wirecodec.kernels.cpu import sample
from wirecodec.select import exact

__all__ = ["Corner", "measured"]


@dataclass(frozen=True)
class Corner:
    """One input.

    Args:
        name: of it.
        samples: how many of the two samples it misleads: 0, 1, or, with the clock stopped that seeds the
            second one, 2.
        reads: of each density.
    """

    name: str
    samples: int
    reads: tuple[float, ...]


def measured(n: int, step: Callable[[str], None], *, budget: float) -> list[Corner]:
    """All of them, on one thread.

    Args:
        n: elements.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    found = []
    with on_threads(1):
        for name, x in _slow(np.random.default_rng(0), n):
            step(f"top-k of: {name}")
            calls = [partial(wc.TopK(density).select, x) for density in DENSITIES]
            found.append(Corner(name, 0, tuple(reads(x, calls, budget=budget).times)))
        seen = np.random.default_rng(1).laplace(size=n).astype(np.float32)
        for name, values, factor in _misleading(np.random.default_rng(0), n):
            for samples in (1, 2):
                step(f"top-k of: {name}, {samples} samples misled")
                times = [_misled(int(d * n), values, factor * seen, samples, budget) for d in DENSITIES]
                found.append(Corner(name, samples, tuple(times)))
    return found


def _misled(k: int, values: Any, seen: Any, samples: int, budget: float) -> float:
    """The reads of the top k where the first samples see other values than there are."""
    x = values.astype(np.float32)
    for run, spread, seed in ((16, exact.CORRELATED, 0), (1, 1.0, 7))[:samples]:
        where = _looked_at(x.size, run, exact.planned(x.size, k, run, spread).samples, seed)
        x[where] = seen[where]
    stopped = SimpleNamespace(perf_counter_ns=lambda: 7)
    with mock.patch.object(exact, "time", stopped) if samples == 2 else nullcontext():
        (time,) = reads(x, [partial(wc.TopK(k=k).select, x)], budget=budget).times
    return time


def _slow(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any]]:
    """Ties, order, clusters."""
    x = rng.laplace(size=n).astype(np.float32)
    yield "constant", np.full(n, 2, np.float32)
    yield "zeros", np.full(n, 0, np.float32)
    yield "integers", rng.integers(-5, 6, n).astype(np.float32)
    yield "one in a thousand", x * (rng.random(n) < 1e-3)
    yield "rows of 64", x * np.repeat(rng.random(n // 64 + 1) < 0.05, 64)[:n]
    yield "ascending", np.arange(n, dtype=np.float32)
    yield "descending", np.arange(n, dtype=np.float32)[::-1].copy()
    yield "one cluster", (1 + 1e-3 * rng.random(n)).astype(np.float32)
    yield "three neighbours", 1 + rng.integers(0, 3, n).astype(np.float32) * np.float32(1.2e-7)


def _misleading(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any, float]]:
    """Names, values, and by what Laplace numbers are multiplied where samples look."""
    x = rng.laplace(size=n)
    yield "large where nobody looks", x, 1e-3
    yield "small where nobody looks", 1e-3 * x, 1e3
    yield "ones where nobody looks", np.ones(n), 1e-3
    yield "three neighbours but where samples are", 1 + rng.integers(0, 3, n) * 1.2e-7, 3.0
    yield "a cluster but where samples are", 1 + 1e-3 * rng.random(n), 3.0
    yield "ascending but where samples are", np.arange(n), 1e-3
    yield "few digits, large where samples are", _few_digits(rng, n), 1e3


@numba.njit  # type: ignore[untyped-decorator]
def _looked_at(size: int, run: int, samples: int, seed: int) -> Any:
    """The positions of a sample."""
    found = np.empty(samples, np.int64)
    for i in range(samples):
        first = sample.run_of(i // run, samples // run, size // run, np.uint64(seed)) * run
        found[i] = first + i % run
    return found


def _few_digits(rng: np.random.Generator, n: int) -> Any:
    """Numbers near one of which each digit has four values, one of them most often."""
    bits = np.full(n, 0x3F9 << 20, np.uint32)
    for shift in (20, 9, 0):
        bits += np.where(rng.random(n) < 0.8, 4, rng.integers(0, 3, n)).astype(np.uint32) << np.uint32(shift)
    return bits.view(np.float32)
