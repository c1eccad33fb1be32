"""Time of each selector in reads, for each array and density, and of whole schemes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import DENSITIES, list_gradient_files
from benchmarks.common.timing import numba_threads
from benchmarks.select.contenders import build_contenders
from benchmarks.select.reads import measure_reads
from wirecodec.arrays import aligned
from wirecodec.cpu.fast.sums import select_sum

__all__ = [
    "FUSED",
    "TOPK",
    "SchemeSpeed",
    "Speed",
    "load_gradients",
    "measure_array",
    "measure_schemes",
    "measure_synthetic",
]

TOPK, FUSED = "topk(δ)", "gradient + residual, topk(δ)"


@dataclass(frozen=True)
class Speed:
    """Time of one selector on one array.

    Attributes:
        array: name of the array.
        elements: its size.
        density: the requested density.
        name: name of the selector.
        peer: True for third-party software.
        threads: number of threads.
        reads: time in reads.
        read_seconds: seconds per read.
        synthetic: False for a saved gradient.
        fits: number of fits, for SIDCo.
        counted_reads: reads that SIDCo counts: elements it visits relative to the size.
    """

    array: str
    elements: int
    density: float
    name: str
    peer: bool
    threads: int
    reads: float
    read_seconds: float
    synthetic: bool = True
    fits: int | None = None
    counted_reads: float | None = None


@dataclass(frozen=True)
class SchemeSpeed:
    """Time of a whole scheme.

    Attributes:
        scheme: selector, index codec, value codec.
        encode: reads of ``encode``.
        decode_add: reads of ``decode_add``.
        prepare: reads of a Compressor's ``prepare``.
    """

    scheme: str
    encode: float
    decode_add: float
    prepare: float


def measure_synthetic(n: int, step: Callable[[str], None], *, budget: float) -> list[Speed]:
    """Measure every contender on a synthetic gradient, and exact top-k on two threads also.

    Args:
        n: number of elements.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
    """
    x = _draw_laplace(n)
    residual, rest = np.float32(0.3) * x[::-1], aligned(n, np.float32)
    speeds = measure_array(f"{n:,}", x, step, budget=budget, synthetic=True)
    for threads in (1, 2):
        step(f"{n:,}: gradient + residual, {threads} threads")
        with numba_threads(threads):
            sums = [partial(select_from_sum, wc.selectors.TopK(d), x, residual, rest) for d in DENSITIES]
            selects = [lambda d=d: wc.selectors.TopK(d).select(x) for d in DENSITIES] if threads > 1 else []
            reads = measure_reads(x, [*sums, *selects], budget=budget)
        for i, time in enumerate(reads.times):
            name = FUSED if i < len(DENSITIES) else TOPK
            density = DENSITIES[i % len(DENSITIES)]
            speeds.append(Speed(f"{n:,}", n, density, name, False, threads, time, reads.seconds))
    return speeds


def select_from_sum(selector: wc.selectors.TopK, gradient: Any, residual: Any, rest: Any) -> Any:
    """Select from gradient + residual as a Compressor does.

    If the fused kernel does not apply, the sum is computed first and searched afterwards.

    Args:
        selector: exact top-k.
        gradient, residual: (n,) float32.
        rest: (n,) float32, receives the new residual.
    """
    selection = select_sum(selector, gradient, residual, rest)
    return selection or selector.select(np.add(gradient, residual, out=rest))


def measure_array(
    array: str, x: Any, step: Callable[[str], None], *, budget: float, synthetic: bool = False
) -> list[Speed]:
    """Measure every contender on one array, on one thread.

    Args:
        array: name of the array.
        x: the array.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
        synthetic: False for a saved gradient.
    """
    speeds = []
    for density in DENSITIES:
        step(f"{array}: {density:g}")
        search = wc.selectors.SIDCo(density).search(x)
        contenders = build_contenders(density)
        with numba_threads(1):
            for peer in (False, True):
                group = [contender for contender in contenders if contender.peer == peer]
                reads = measure_reads(x, [partial(contender.call, x) for contender in group], budget=budget)
                for contender, time in zip(group, reads.times, strict=True):
                    speed = Speed(
                        array, x.size, density, contender.name, peer, 1, time, reads.seconds, synthetic
                    )
                    if contender.name == "sidco(δ)":
                        speed = replace(speed, fits=search.stages, counted_reads=search.reads)
                    speeds.append(speed)
    return speeds


def measure_schemes(n: int, step: Callable[[str], None], *, budget: float) -> list[SchemeSpeed]:
    """Measure encoding, decoding into a sum, and a Compressor's step, on one thread.

    Args:
        n: number of elements.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
    """
    x = _draw_laplace(n)
    out, speeds = np.zeros_like(x), []
    for scheme in [f"topk({d:g}) | rice | {v}" for d in DENSITIES for v in ("raw", "raw(bfloat16)")]:
        step(scheme)
        blob, compressor = wc.encode(x, scheme), wc.Compressor(scheme)
        for _ in range(3):
            compressor.compress({"w": x})
        calls = (
            partial(wc.encode, x, scheme),
            partial(wc.decode_add, blob, out),
            lambda c=compressor: c.prepare({"w": x}).rollback(),
        )
        with numba_threads(1):
            speeds.append(SchemeSpeed(scheme, *measure_reads(x, calls, budget=budget).times))
    return speeds


def load_gradients(folders: Sequence[Path]) -> dict[str, Any]:
    """Load the gradients of some folders as flat float32 arrays, by name."""
    return {path.stem: np.load(path).reshape(-1).astype(np.float32) for path in list_gradient_files(*folders)}


def _draw_laplace(n: int) -> Any:
    return np.random.default_rng(0).laplace(size=n).astype(np.float32)
