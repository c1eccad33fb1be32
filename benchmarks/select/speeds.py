"""How many reads of the array each selector takes, for each size and density."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as Folder
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import on_threads
from benchmarks.select.contenders import DENSITIES, rivals
from benchmarks.select.reads import reads
from wirecodec.arrays import aligned

__all__ = ["FUSED", "TOPK", "Path", "Speed", "gradients", "measured", "of_gradient", "whole_path"]

TOPK, FUSED = "topk(δ)", "gradient + residual, topk(δ)"


@dataclass(frozen=True)
class Speed:
    """What was measured.

    Args:
        array: what was selected from.
        elements: its size.
        density: that was asked for.
        name: of the selector.
        peer: whether it is another's work.
        threads: how many.
        reads: its time.
        read: seconds of one read.
        synthetic: whether the array is.
        fits: of SIDCo.
        counted: the reads that SIDCo itself counts, elements looked at over elements there.
    """

    array: str
    elements: int
    density: float
    name: str
    peer: bool
    threads: int
    reads: float
    read: float
    synthetic: bool = True
    fits: int | None = None
    counted: float | None = None


@dataclass(frozen=True)
class Path:
    """What a scheme takes as a whole.

    Args:
        scheme: selector, index codec, value codec.
        reads: of encode, decode_add and a Compressor's prepare.
    """

    scheme: str
    reads: tuple[float, ...]

    @property
    def encode(self) -> float:
        """Its reads."""
        return self.reads[0]

    @property
    def add(self) -> float:
        """The reads of ``decode_add``."""
        return self.reads[1]


def _laplace(n: int) -> Any:
    return np.random.default_rng(0).laplace(size=n).astype(np.float32)


def measured(n: int, step: Callable[[str], None], *, budget: float) -> list[Speed]:
    """Every rival on a synthetic gradient; the exact ones on two threads as well.

    Args:
        n: elements.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    x = _laplace(n)
    residual, rest = np.float32(0.3) * x[::-1], aligned(n, np.float32)
    found = of_gradient(f"{n:,}", x, step, budget=budget, synthetic=True)
    for threads in (1, 2):
        step(f"{n:,}: gradient + residual, {threads} threads")
        with on_threads(threads):
            sums = [partial(_of_sum, wc.TopK(d), x, residual, rest) for d in DENSITIES]
            selects = [lambda d=d: wc.TopK(d).select(x) for d in DENSITIES] if threads > 1 else []
            taken = reads(x, [*sums, *selects], budget=budget)
        for i, time in enumerate(taken.times):
            name = FUSED if i < len(DENSITIES) else TOPK
            found.append(Speed(f"{n:,}", n, DENSITIES[i % 3], name, False, threads, time, taken.read))
    return found


def _of_sum(selector: wc.TopK, gradient: Any, residual: Any, rest: Any) -> Any:
    """As a Compressor selects: where a sum cannot be searched while it is made, it is searched after that."""
    found = selector.select_sum(gradient, residual, rest)
    return found or selector.select(np.add(gradient, residual, out=rest))


def of_gradient(
    array: str, x: Any, step: Callable[[str], None], *, budget: float, synthetic: bool = False
) -> list[Speed]:
    """Every rival on one array, on one thread.

    Args:
        array: its name.
        x: the array.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
        synthetic: whether the array is.
    """
    found = []
    for density in DENSITIES:
        step(f"{array}: {density:g}")
        search = wc.SIDCo(density).search(x)
        every = rivals(density)
        with on_threads(1):
            for peer in (False, True):
                some = [rival for rival in every if rival.peer == peer]
                taken = reads(x, [lambda r=r: r.call(x) for r in some], budget=budget)  # type: ignore[misc]
                for rival, time in zip(some, taken.times, strict=True):
                    speed = Speed(array, x.size, density, rival.name, peer, 1, time, taken.read, synthetic)
                    if rival.name == "sidco(δ)":
                        speed = replace(speed, fits=search.stages, counted=search.reads)
                    found.append(speed)
    return found


def whole_path(n: int, step: Callable[[str], None], *, budget: float) -> list[Path]:
    """What encoding, decoding into a sum and a Compressor's step take; one thread.

    Args:
        n: elements.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    x = _laplace(n)
    out, found = np.zeros_like(x), []
    for scheme in [f"topk({d:g}) | rice | {v}" for d in DENSITIES for v in ("raw", "raw(bfloat16)")]:
        step(scheme)
        blob, c = wc.encode(x, scheme), wc.Compressor(scheme)
        for _ in range(3):
            c.compress({"w": x})
        calls = (
            lambda s=scheme: wc.encode(x, s),
            lambda b=blob: wc.decode_add(b, out),
            lambda c=c: c.prepare({"w": x}).rollback(),
        )
        with on_threads(1):
            found.append(Path(scheme, tuple(reads(x, calls, budget=budget).times)))
    return found


def gradients(folders: Sequence[Folder]) -> dict[str, Any]:
    """The gradients of these folders, flat, as float32."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.npy"))]
    return {path.stem: np.load(path).reshape(-1).astype(np.float32) for path in paths}
