"""Measurements in processes of their own: a long run of one Compressor, and the first call of a process.

python -m benchmarks.model.processes long STEPS
python -m benchmarks.model.processes first
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common.store import ROOT

__all__ = ["FirstCall", "LongRun", "measure_first_calls", "measure_long_run", "run_long"]

WARM_UP = 20
"""Steps before the first window of a long run."""


@dataclass(frozen=True)
class LongRun:
    """Steps of one Compressor in one process, on ResNet-20's shapes. A window is 1/20 of all steps.

    Attributes:
        steps: their number.
        first_step, last_step: median seconds of processor time of a step in the first and last window.
        first_memory, last_memory: resident bytes after the first window and after the last step.
    """

    steps: int
    first_step: float
    last_step: float
    first_memory: int
    last_memory: int


@dataclass(frozen=True)
class FirstCall:
    """First calls of a process on ResNet-50's shapes, one thread.

    Attributes:
        cache: "empty" or "warm".
        processor: seconds of processor time of the first ``encode_many``.
        seconds: duration of the first ``encode_many``.
        second_call: seconds of processor time of the second.
        kernels: number of kernels that were compiled.
    """

    cache: str
    processor: float
    seconds: float
    second_call: float
    kernels: int


def measure_long_run(steps: int, step: Callable[[str], None]) -> LongRun:
    """Run one Compressor for some steps in a new process."""
    step(f"{steps:,} steps of one Compressor")
    return LongRun(**json.loads(_start("long", str(steps))))


def measure_first_calls(step: Callable[[str], None]) -> list[FirstCall]:
    """Measure the first ``encode_many`` of a process with an empty cache folder, and of the next process."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "warm"):
            step(f"first encode_many, {cache} cache")
            page = _start("first", NUMBA_CACHE_DIR=folder)
            found.append(FirstCall(cache, **json.loads(page)))
    return found


def run_long(steps: int) -> LongRun:
    """Run steps of one Compressor in this process; each also adds its container to a sum."""
    import wirecodec as wc
    from benchmarks.model.models import build_resnet20, draw_gradient

    shapes = build_resnet20().shapes
    gradients = [draw_gradient(shapes, seed)[0] for seed in range(8)]
    sums = {name: np.zeros_like(x) for name, x in gradients[0].items()}
    compressor = wc.Compressor("topk(0.01) | rice | qsgd(bits=4)")
    window, times, first_memory = max(1, steps // 20), np.zeros(steps), 0
    for i in range(-WARM_UP, steps):
        start = time.process_time()
        wc.decode_add(compressor.compress(gradients[i % 8]), sums)
        if i >= 0:
            times[i] = time.process_time() - start
        if i == window - 1:
            first_memory = _measure_memory()
    first, last = (float(np.median(part)) for part in (times[:window], times[-window:]))
    return LongRun(steps, first, last, first_memory, _measure_memory())


def _run_first() -> dict[str, float]:
    """Encode ResNet-50's shapes twice in this process."""
    import wirecodec as wc
    from benchmarks.model.models import build_resnet50, draw_gradient
    from wirecodec.kernels.compiler.compile_log import log

    tensors, _ = draw_gradient(build_resnet50().shapes)
    marks = [(time.perf_counter(), _measure_processor_time())]
    for _ in range(2):
        wc.encode_many(tensors, "topk(0.01) | rice | qsgd(bits=4)")
        marks.append((time.perf_counter(), _measure_processor_time()))
    return {
        "processor": marks[1][1] - marks[0][1],
        "seconds": marks[1][0] - marks[0][0],
        "second_call": marks[2][1] - marks[1][1],
        "kernels": sum(entry.compiled for entry in log),
    }


def _start(*arguments: str, **variables: str) -> str:
    """Run this module in a new process on one thread, and return its output."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "benchmarks.model.processes", *arguments]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout


def _measure_memory() -> int:
    """Return the resident bytes of this process, or their maximum if the system has no /proc."""
    path = Path("/proc/self/statm")
    if path.exists():
        return int(path.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _measure_processor_time() -> float:
    """Return the processor time of this process and of the processes that it has waited for, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    print(json.dumps(_run_first() if kind == "first" else dataclasses.asdict(run_long(int(rest[0])))))
