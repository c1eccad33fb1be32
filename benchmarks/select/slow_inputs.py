"""Slow inputs for exact top-k: ties, order, clusters, and values that mislead its samples."""

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
from benchmarks.common.inputs import DENSITIES
from benchmarks.common.timing import numba_threads
from benchmarks.select.reads import measure_reads
from wirecodec.kernels.cpu.select import sample
from wirecodec.select.topk import exact as topk_exact

__all__ = ["SlowInput", "measure_slow_inputs"]


@dataclass(frozen=True)
class SlowInput:
    """Time of one input.

    Attributes:
        name: name of the input.
        misled_samples: number of its two samples that the input misleads; 2 needs a fixed clock, whose time
            seeds the second sample.
        reads: time for each density, in reads.
    """

    name: str
    misled_samples: int
    reads: tuple[float, ...]


def measure_slow_inputs(n: int, step: Callable[[str], None], *, budget: float) -> list[SlowInput]:
    """Measure all slow inputs on one thread.

    Args:
        n: number of elements.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
    """
    inputs = []
    with numba_threads(1):
        for name, x in _generate_slow(np.random.default_rng(0), n):
            step(f"top-k of: {name}")
            calls = [partial(wc.selectors.TopK(density).select, x) for density in DENSITIES]
            inputs.append(SlowInput(name, 0, tuple(measure_reads(x, calls, budget=budget).times)))
        sampled = np.random.default_rng(1).laplace(size=n).astype(np.float32)
        for name, values, factor in _generate_misleading(np.random.default_rng(0), n):
            for samples in (1, 2):
                step(f"top-k of: {name}, misled samples: {samples}")
                times = [
                    _measure_misled(int(d * n), values, factor * sampled, samples, budget) for d in DENSITIES
                ]
                inputs.append(SlowInput(name, samples, tuple(times)))
    return inputs


def _measure_misled(k: int, values: Any, sampled: Any, samples: int, budget: float) -> float:
    """Measure the reads of top-k if its first samples contain other values than the array."""
    x = values.astype(np.float32)
    for run, spread, seed in ((16, topk_exact.NEIGHBOUR_CORRELATION, 0), (1, 1.0, 7))[:samples]:
        positions = _compute_sample_positions(
            x.size, run, topk_exact.plan_sample(x.size, k, run, spread).samples, seed
        )
        x[positions] = sampled[positions]
    fixed_clock = SimpleNamespace(perf_counter_ns=lambda: 7)
    with mock.patch.object(topk_exact, "time", fixed_clock) if samples == 2 else nullcontext():
        (time,) = measure_reads(x, [partial(wc.selectors.TopK(k=k).select, x)], budget=budget).times
    return time


def _generate_slow(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any]]:
    """Yield inputs with ties, order or clusters."""
    x = rng.laplace(size=n).astype(np.float32)
    yield "constant", np.full(n, 2, np.float32)
    yield "zeros", np.full(n, 0, np.float32)
    yield "integers", rng.integers(-5, 6, n).astype(np.float32)
    yield "one in a thousand", x * (rng.random(n) < 1e-3)
    yield "rows of 64", x * np.repeat(rng.random(n // 64 + 1) < 0.05, 64)[:n]
    yield "ascending", np.arange(n, dtype=np.float32)
    yield "descending", np.arange(n, dtype=np.float32)[::-1].copy()
    yield "one cluster", (1 + 1e-3 * rng.random(n)).astype(np.float32)
    yield "three neighbouring values", 1 + rng.integers(0, 3, n).astype(np.float32) * np.float32(1.2e-7)


def _generate_misleading(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any, float]]:
    """Yield names, values, and the factor of the Laplace values at the positions of samples."""
    x = rng.laplace(size=n)
    yield "large outside the sample", x, 1e-3
    yield "small outside the sample", 1e-3 * x, 1e3
    yield "ones outside the sample", np.ones(n), 1e-3
    yield "three neighbouring values outside the sample", 1 + rng.integers(0, 3, n) * 1.2e-7, 3.0
    yield "one cluster outside the sample", 1 + 1e-3 * rng.random(n), 3.0
    yield "ascending outside the sample", np.arange(n), 1e-3
    yield "few digits, large in the sample", _generate_few_digits(rng, n), 1e3


@numba.njit  # type: ignore[untyped-decorator]
def _compute_sample_positions(size: int, run: int, samples: int, seed: int) -> Any:
    """Return the positions of a sample."""
    positions = np.empty(samples, np.int64)
    plan = sample.plan_strata(size // run, samples // run)
    for i in range(samples):
        first = sample.find_run(i // run, plan, np.uint64(seed)) * run
        positions[i] = first + i % run
    return positions


def _generate_few_digits(rng: np.random.Generator, n: int) -> Any:
    """Return values near one in which each digit takes four values, one of them most often."""
    bits = np.full(n, 0x3F9 << 20, np.uint32)
    for shift in (20, 9, 0):
        bits += np.where(rng.random(n) < 0.8, 4, rng.integers(0, 3, n)).astype(np.uint32) << np.uint32(shift)
    return bits.view(np.float32)
