"""Speed-up of threshold selectors over top-k on a GPU: Figure 16 of the SIDCo paper with our selectors.

A time is that to indices and values on the device, including the host's work. It is measured for vectors of
0.26 to 260 million elements and densities of 0.1, 0.01 and 0.001. Speed-ups refer to torch.topk and a gather,
which the paper calls Topk, or to CuPy's argpartition if torch has no CUDA. RedSync, GaussianK and SIDCo's
gamma fit have no kernels here and are omitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.gpu import timing
from benchmarks.gpu.rows import Job, guard
from benchmarks.gpu.trace import has_cuda
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import select
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.tensors import DeviceFlat

__all__ = [
    "DENSITIES",
    "SIZES",
    "SelectorTime",
    "compute_speed_up",
    "draw",
    "find_baseline",
    "format_table",
    "generate_jobs",
    "measure_selectors",
]

SIZES = [260_000, 2_600_000, 26_000_000, 260_000_000]
DENSITIES = [0.1, 0.01, 0.001]
BASELINES = ["torch.topk + gather", "cupy.argpartition"]
"""Baselines of the speed-ups: the first one that was measured is used."""
CAPTION = """Speed-up of each selector over {baseline}, to indices and values on the device, including the
host's work; Laplace values, float32. `topk, warm` starts from the threshold of the previous step. In the
paper's panels of a GPU, 16a-d, all selectors are faster than top-k. RedSync, GaussianKSGD and SIDCo-GP have
no kernels here. [selectors.csv](gpu/selectors.csv) also has smaller vectors.

"""
SHOWN_SIZE = 26_000_000
"""Size of the table beside the largest one."""


@dataclass(frozen=True)
class SelectorTime:
    """Time of one selector.

    Attributes:
        name: name of the selector.
        elements: size of the vector.
        density: the requested density.
        ms: milliseconds on the device.
    """

    name: str
    elements: int
    density: float
    ms: float


def generate_jobs(device: CupyDevice, sizes: Sequence[int]) -> Iterator[Job]:
    """Yield the measurement of all selectors for each size and density."""
    for size in sizes:
        yield from guard(f"{size:,}", _generate_jobs_of(device, size))


def _generate_jobs_of(device: CupyDevice, size: int) -> Iterator[Job]:
    clock = partial(timing.measure_event_time, device.cupy)
    x = timing.draw_laplace(device.cupy, size)
    for density in DENSITIES:
        yield Job(f"{size:,}, {density:g}", partial(measure_selectors, device, x, density, clock))


def measure_selectors(
    device: CupyDevice, x: Any, density: float, clock: Callable[[Callable[[], object]], float]
) -> Iterator[SelectorTime]:
    """Measure every selector and peer on a float32 vector of the device.

    Args:
        device: the GPU.
        x: (n,) float32.
        density: the requested density.
        clock: measures the milliseconds of a call.
    """
    flat = DeviceFlat(x.view(np.uint32), np.dtype(np.float32), (x.size,))
    last = LastTop()
    selectors: dict[str, tuple[Any, Context]] = {
        "topk": (wc.selectors.TopK(density), Context()),
        "topk, warm": (wc.selectors.TopK(density), Context(last=last)),
        "dgc": (wc.selectors.DGC(density), Context()),
        "sidco": (wc.selectors.SIDCo(density), Context()),
        "sidco, gp": (wc.selectors.SIDCo(density, sid="gp"), Context()),
        "sidco, one stage": (wc.selectors.SIDCo(density, mode="faithful", stages=1), Context()),
    }
    calls: dict[str, Callable[[], object]] = {
        name: lambda selector=selector, context=context: select(device, flat, selector, context)  # type: ignore[misc]
        for name, (selector, context) in selectors.items()
    }
    for name, call in (calls | build_peers(device.cupy, x, max(1, int(density * x.size)))).items():
        yield SelectorTime(name, x.size, density, clock(call))


def build_peers(cupy: Any, x: Any, k: int) -> dict[str, Callable[[], object]]:
    """Build third-party top-k implementations with gathered values."""

    def run_argpartition() -> object:
        return x[cupy.argpartition(cupy.abs(x), x.size - k)[-k:]]

    peers: dict[str, Callable[[], object]] = {"cupy.argpartition": run_argpartition}
    if has_cuda():
        import torch

        tensor = torch.from_dlpack(x)
        peers["torch.topk + gather"] = lambda: tensor[torch.topk(tensor.abs(), k, sorted=False)[1]]
    return peers


def find_baseline(times: Sequence[SelectorTime]) -> str:
    """Return the name of the baseline."""
    names = {each.name for each in times}
    return next((name for name in BASELINES if name in names), BASELINES[0])


def compute_speed_up(times: Sequence[SelectorTime], one: SelectorTime) -> float:
    """Return the speed-up over the baseline for the same vector and density; NaN if it is missing."""
    wanted = find_baseline(times), one.elements, one.density
    over = (each.ms for each in times if (each.name, each.elements, each.density) == wanted)
    return next(over, math.nan) / one.ms


@dataclass(frozen=True)
class Gain:
    """Speed-up of a selector over the baseline, as a row of a data file; NaN without a baseline."""

    selector: str
    elements: int
    density: float
    speed_up: float
    ms: float


def list_gains(times: Sequence[SelectorTime]) -> list[Gain]:
    """List the speed-ups of all selectors and vectors, with two digits, for a data file."""
    return [
        Gain(each.name, each.elements, each.density, round(compute_speed_up(times, each), 2), each.ms)
        for each in times
    ]


def format_table(times: Sequence[SelectorTime]) -> str:
    """Format a table with one row per selector and vector of some sizes, and one column per density."""
    densities = list(dict.fromkeys(each.density for each in times))
    rows = pivot_rows(
        (
            (
                f"{each.name}, {each.elements:,}",
                each.density,
                f"{compute_speed_up(times, each):.2f}× ({each.ms:.3f} ms)".replace("nan×", "–"),
            )
            for each in times
            if each.elements in (SHOWN_SIZE, max(time.elements for time in times))
        ),
        densities,
    )
    header = ["", *(f"{density:g}" for density in densities)]
    return CAPTION.format(baseline=find_baseline(times)) + format_markdown(header, rows)


UNDRAWN = ["sidco, gp"]
"""Selectors whose lines would not differ from their neighbours'."""


def draw(path: Path, times: Sequence[SelectorTime], gpu: str) -> None:
    """Draw one panel per density, with one line per selector; needs Matplotlib.

    Args:
        path: path of the PNG.
        times: all times.
        gpu: name of the device.
    """
    from benchmarks.common.palette import LIMIT
    from benchmarks.common.pictures import label_ends, open_picture

    densities = list(dict.fromkeys(each.density for each in times))
    baseline = find_baseline(times)
    names = [name for name in dict.fromkeys(each.name for each in times) if name not in (baseline, *UNDRAWN)]
    title = f"How many times as fast as {baseline.partition(' ')[0]} is each selector on an {gpu}?"
    layout: dict[str, Any] = {"sharex": True, "sharey": True}
    with open_picture(path, len(densities), title=title, height=2.7, **layout) as axes:
        panels = list(zip(axes[:, 0], densities, strict=True))
        ends = [_draw_density(axis, times, names, density) for axis, density in panels]
        axes[0, 0].set(xscale="log", yscale="log")
        low, high = axes[0, 0].get_ylim()
        axes[0, 0].set_yticks([tick for tick in TICKS if low <= tick <= high])
        axes[0, 0].yaxis.set_major_formatter("{x:g}")
        axes[0, 0].yaxis.set_minor_formatter("")
        axes[-1, 0].set_xlabel("elements")
        for axis, found in zip(axes[:, 0], ends, strict=True):
            axis.axhline(1, color=LIMIT, lw=0.8)
            axis.set_ylabel("times as fast")
            label_ends(axis, found)


TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)


def _draw_density(
    axis: Any, times: Sequence[SelectorTime], names: Sequence[str], density: float
) -> list[tuple[float, float, str, str]]:
    """Draw the lines of a panel; return their ends with names and colours."""
    from benchmarks.common.palette import COLOURS, OTHERS

    own = iter([colour for colour in COLOURS if colour != OTHERS])
    ends: list[tuple[float, float, str, str]] = []
    for name in names:
        colour = OTHERS if name in BASELINES else next(own)
        found = [each for each in times if (each.name, each.density) == (name, density)]
        points = [(each.elements, compute_speed_up(times, each)) for each in found]
        if points:
            axis.plot(*zip(*points, strict=True), "o-", color=colour, ms=5)
            ends.append((*points[-1], name, colour))
    axis.set_title(f"density {density:g}", loc="left")
    return ends
