"""Time of whole steps on the host's clock, and what a step costs: launches, waits, and the device's time.

A step compresses the gradients of a model, or encodes them without error feedback. The same step on the
host copies the gradients there first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.results import format_markdown
from benchmarks.gpu import timing
from benchmarks.gpu.model import list_shapes
from benchmarks.gpu.rows import Job, guard
from benchmarks.gpu.trace import has_cuda, sum_busy, trace
from wirecodec.kernels.cuda.device import CupyDevice

__all__ = ["StepTime", "count_calls", "format_steps", "generate_jobs"]

SCHEMES = ["topk(0.01) | rice | qsgd", "sidco(0.01) | rice | raw"]
MODEL = list_shapes()
GRADIENTS: dict[str, list[tuple[int, ...]]] = {
    "1 × 1,000": [(1_000,)],
    "1 × 1,000,000": [(1_000_000,)],
    "1 × 26,000,000": [(26_000_000,)],
    f"{len(MODEL)} of a language model": MODEL,
}
QUICK: dict[str, list[tuple[int, ...]]] = {"1 × 1,000": [(1_000,)], "3 × small": [(20, 30), (500,), (7,)]}
TRACED = 2
GPU, HOST = "GPU", "host"
HEADER = [
    "tensors",
    "type",
    "scheme",
    "call",
    "ms",
    "launches",
    "waits",
    "busy, ms",
    "on the host, ms",
    "speed-up",
]
CAPTION = """Times are medians on the host's clock, until the device is idle. `launches` are the library's
kernels of a step, `waits` its copies to the host that wait for the device. `busy` is the sum of all kernels,
copies and memsets in torch's profiler. `on the host` is the same step on the CPU, with the copy of the
gradients to the host. [steps.csv](gpu/steps.csv) also has `sidco`.

"""


@dataclass(frozen=True)
class StepTime:
    """Time of a step.

    Attributes:
        tensors: name of the gradients.
        dtype: of their elements.
        scheme: of the compressor.
        call: "compress" or "encode_many".
        place: "GPU" or "host".
        ms: median time.
        launches, waits: of one step; None on the host.
        busy_ms: time of the device in one step; None on the host, or without torch.
    """

    tensors: str
    dtype: str
    scheme: str
    call: str
    place: str
    ms: float
    launches: int | None = None
    waits: int | None = None
    busy_ms: float | None = None


def generate_jobs(device: CupyDevice, *, quick: bool) -> Iterator[Job]:
    """Yield a measurement for gradients, type, scheme and place; those of the GPU first.

    The types are float32 and bfloat16, of torch's tensors. Without torch, they are float32 in CuPy's arrays.
    """
    dtypes = ["float32", "bfloat16"] if has_cuda() else ["float32"]
    for place in (GPU, HOST):
        for name, shapes in (QUICK if quick else GRADIENTS).items():
            for dtype in dtypes:
                jobs = _generate_jobs_of(device, name, shapes, dtype, place)
                yield from guard(f"{name}, {dtype}, {place}", jobs)


def _generate_jobs_of(
    device: CupyDevice, name: str, shapes: list[tuple[int, ...]], dtype: str, place: str
) -> Iterator[Job]:
    tensors = draw_gradients(device.cupy, shapes, dtype)
    for scheme in SCHEMES:

        def run(scheme: str = scheme) -> Iterator[StepTime]:
            for call, step in build_calls(tensors, scheme, place).items():
                ms = timing.measure_host_time(device.cupy, step)
                known = name, dtype, scheme, call, place, ms
                if place == HOST:
                    yield StepTime(*known)
                    continue
                launches, waits = count_calls(device, step)
                busy = sum_busy(trace(step, TRACED)) / TRACED if has_cuda() else None
                yield StepTime(*known, launches, waits, busy)

        yield Job(f"{name}, {dtype}, {scheme}, {place}", run)


def draw_gradients(cupy: Any, shapes: list[tuple[int, ...]], dtype: str) -> dict[str, Any]:
    """Draw gradients on the device: torch's tensors if torch has CUDA, otherwise CuPy's arrays."""
    sizes = [math.prod(shape) for shape in shapes]
    flat = timing.draw_laplace(cupy, sum(sizes))
    starts = np.cumsum([0, *sizes]).tolist()
    parts = {f"{i:03}": flat[a : a + size] for i, (a, size) in enumerate(zip(starts, sizes, strict=False))}
    if has_cuda():
        import torch

        kind = getattr(torch, dtype)
        made = {name: torch.from_dlpack(x).to(kind, copy=True) for name, x in parts.items()}
        torch.cuda.synchronize()
    else:
        made = {name: x.copy() for name, x in parts.items()}
    return {name: x.reshape(shape) for (name, x), shape in zip(made.items(), shapes, strict=True)}


def build_calls(tensors: dict[str, Any], scheme: str, place: str) -> dict[str, Callable[[], object]]:
    """Return the calls by name; on the host, each copies the gradients first."""
    compressor = wc.Compressor(scheme)

    def given() -> dict[str, Any]:
        return tensors if place == GPU else {name: copy_to_host(x) for name, x in tensors.items()}

    return {
        "compress": lambda: compressor.compress(given()),
        "encode_many": lambda: wc.encode_many(given(), scheme),
    }


def copy_to_host(x: Any) -> Any:
    """Copy torch's tensor or CuPy's array."""
    if hasattr(x, "cpu"):
        return x.cpu()
    host = np.empty(x.shape, x.dtype)
    x.get(out=host)
    return host


def count_calls(device: CupyDevice, step: Callable[[], object]) -> tuple[int, int]:
    """Count the kernels that a step launches, and its copies to the host, which wait."""
    kind: Any = type(device)
    launch, get = kind.launch, kind.get
    counts = {"launch": 0, "get": 0}

    def count_launch(self: Any, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        counts["launch"] += blocks > 0
        launch(self, source, kernel, blocks, *arguments)

    def count_get(self: Any, array: Any) -> Any:
        counts["get"] += 1
        return get(self, array)

    kind.launch, kind.get = count_launch, count_get
    try:
        step()
    finally:
        kind.launch, kind.get = launch, get
    return counts["launch"], counts["get"]


SHOWN, SELECTOR = ("compress",), "topk"
"""Calls and the selector on the page; the data file has all."""


def format_steps(times: list[StepTime]) -> str:
    """Format a table with one row per step on the GPU, beside the same step on the host."""

    def key(time: StepTime) -> tuple[str, ...]:
        return time.tensors, time.dtype, time.scheme, time.call

    on_host = {key(time): time.ms for time in times if time.place == HOST}
    rows = []
    for time in times:
        if time.place != GPU or time.call not in SHOWN or not time.scheme.startswith(SELECTOR):
            continue
        host = on_host.get(key(time))
        rows.append(
            [
                time.tensors,
                time.dtype,
                f"`{time.scheme}`".replace("|", "\\|"),
                f"`{time.call}`",
                f"{time.ms:.3f}",
                str(time.launches),
                str(time.waits),
                "" if time.busy_ms is None else f"{time.busy_ms:.3f}",
                "" if host is None else f"{host:.3f}",
                "" if host is None else f"{host / time.ms:.1f}×",
            ]
        )
    return CAPTION + format_markdown(HEADER, rows)
