"""Times of the stages of a step on the host with one thread and with two, and computed for many.

One process per number of threads; they take turns, so that both see the same noise. A third one divides the
work as for many threads, does all of it in one thread, and measures the parts that threads could share.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.step.stages import recorded
from benchmarks.step.systems import BUDGETED, TOPK
from wirecodec.cpu import forms
from wirecodec.interop import decode_sum

__all__ = ["MANY_THREADS", "THREADS", "StageTime", "format_threads", "measure_threads"]

THREADS = "threads"
MANY_THREADS = 32
TENSORS, ELEMENTS = 148, 50_000_000
SELECT, ENCODE, RESIDUAL, DECODE, REST = "select and add", "encode", "residual", "decode and mean", "rest"
STAGES = (SELECT, ENCODE, RESIDUAL, DECODE, REST)
FORMS = SimpleNamespace()
"""The library's fast forms, in a process of ``main``; other than its own table, it can be changed."""
FUNCTIONS = (
    *(("benchmarks.step.threads:FORMS", name, SELECT) for name in ("select_group", "select_tensors")),
    ("benchmarks.step.threads:FORMS", "select_budgets", SELECT),
    ("wirecodec.cpu.step", "_select", SELECT),
    ("wirecodec.cpu.step", "encode_selection", ENCODE),
    *(("wirecodec.cpu.step", name, RESIDUAL) for name in ("SentTensors", "_complete", "_remainder")),
    ("benchmarks.step.threads", "decode_sum", DECODE),
    ("benchmarks.step.threads", "take_step", REST),
)
"""(module, function, stage) of the functions that are wrapped."""
SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "topk": (TOPK, {}),
    "topk, momentum": (TOPK, {"feedback": wc.MomentumCorrection(0.9)}),
    "budget(0.25), group": (BUDGETED, {"scope": "group"}),
}
MIN_SECONDS = 1e-4
"""Stages below this have no fraction: their times are those of Python, and noise."""


@dataclass(frozen=True)
class StageTime:
    """One stage of a scheme's step.

    Attributes:
        scheme, stage: their names.
        one, two: the least seconds with one thread and with two.
        parallel: the fraction of the time with one thread that is spent in work that threads divide.
        many: computed seconds with ``MANY_THREADS`` threads.
    """

    scheme: str
    stage: str
    one: float
    two: float
    parallel: float
    many: float


def measure_threads(rounds: int = 6, elements: int = ELEMENTS) -> list[StageTime]:
    """Measure all schemes in processes that take turns.

    Args:
        rounds: of each scheme and process.
        elements: of all tensors.
    """
    workers = {count: _start(count, elements) for count in (1, 2, MANY_THREADS)}
    least: dict[tuple[str, str, int], tuple[float, float, float]] = {}
    try:
        for _ in range(rounds + 1):
            for scheme in SCHEMES:
                for count, worker in workers.items():
                    for stage, times in _ask(worker, scheme).items():
                        key = scheme, stage, count
                        least[key] = min(times, least.get(key, times))
    finally:
        for worker in workers.values():
            worker.communicate()  # closes its pipes, which ends it
    rows = []
    for scheme in SCHEMES:
        for stage in STAGES:
            one, two = (least[scheme, stage, count][0] for count in (1, 2))
            alone, divided, shared = least[scheme, stage, MANY_THREADS]
            many = one * (alone - divided + shared) / alone
            rows.append(StageTime(scheme, stage, one, two, divided / alone, many))
    return rows


def format_threads(rows: Sequence[StageTime]) -> str:
    """Format a Markdown table with a row per scheme: its stages, and their sum."""
    cells = []
    for scheme in dict.fromkeys(row.scheme for row in rows):
        chosen = [row for row in rows if row.scheme == scheme]
        for row in chosen:
            share = f"{row.parallel:.0%}" if row.one >= MIN_SECONDS else "–"
            cells.append((scheme, row.stage, f"{_format(row.one, row.two)}, {share}, {_format(row.many)}"))
        one, two, many = (sum(getattr(row, name) for row in chosen) for name in ("one", "two", "many"))
        cells.append((scheme, "sum", f"{_format(one, two)}, {_format(many)}"))
    stages = list(dict.fromkeys(stage for _, stage, _ in cells if stage != "sum"))
    columns = [*stages, "sum"]
    return format_markdown(["scheme", *columns], pivot_rows(cells, columns))


def _format(*seconds: float) -> str:
    return ", ".join(f"{1e3 * value:.1f}" for value in seconds)


def _start(count: int, elements: int) -> Any:
    """Start a process with a number of threads."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(count)}
    command = [sys.executable, "-m", __name__, str(elements)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _ask(worker: Any, scheme: str) -> dict[str, tuple[float, float, float]]:
    """Let a process take a step; return the seconds of its stages, and of the work that threads divide.

    These are two numbers: with one thread, and computed for all of the process's threads.
    """
    worker.stdin.write(scheme + "\n")
    worker.stdin.flush()
    return {stage: tuple(times) for stage, times in json.loads(worker.stdout.readline()).items()}


def take_step(compressor: wc.Compressor, gradients: dict[str, Any], sums: dict[str, Any]) -> None:
    """Encode a step, and average its container with one like another rank's."""
    prepared = compressor.prepare(gradients)
    prepared.commit()
    blobs = [np.asarray(prepared.blob)] * 2
    decode_sum(blobs, sums, divisor=2.0, sent={0: prepared.sent})


class DividedWork:
    """Times of the work of ``run_parallel``, which is done in one thread.

    Attributes:
        seconds: with one thread, so far.
        shared: computed for as many threads as the work allows.
    """

    def __init__(self) -> None:
        self.seconds = self.shared = 0.0
        self._is_inside = False

    def run(self, work: Callable[[Any], object], units: int, least: int) -> None:
        """Run all units in this thread, as ``run_parallel`` runs them in several."""
        is_outer, self._is_inside = not self._is_inside, True
        start = time.perf_counter()
        work(np.array((0, units, units), np.int64))
        spent, threads = time.perf_counter() - start, min(MANY_THREADS, units // max(1, least))
        if is_outer:
            self._is_inside = False
        if is_outer and units >= 2 * least and threads > 1:
            self.seconds += spent
            self.shared += spent / threads


def main() -> None:
    """Take a step of each scheme that the standard input names, and print its stages as JSON."""
    from wirecodec.kernels.cpu import threads

    this: Any = importlib.import_module("benchmarks.step.threads")  # not __main__, so that it can be wrapped
    importlib.import_module("wirecodec.cpu.entry")  # fills the table
    vars(this.FORMS).update(vars(forms.current()))
    forms.fill(this.FORMS)
    divided = DividedWork()
    if threads.thread_count() == MANY_THREADS:
        threads.run_parallel = divided.run
        for index in ("rice", "rice_read", "rice_write", "bitmap"):  # these import it by name
            module: Any = importlib.import_module(f"wirecodec.kernels.cpu.index.{index}")
            module.run_parallel = divided.run
    sizes = np.full(TENSORS, int(sys.argv[1]) // TENSORS)
    random = np.random.default_rng(0)
    gradients = {f"layer.{i}": random.standard_normal(size, np.float32) for i, size in enumerate(sizes)}
    sums = {name: np.zeros_like(gradient) for name, gradient in gradients.items()}
    compressors: dict[str, wc.Compressor] = {}
    clocks = time.perf_counter, lambda: divided.seconds, lambda: divided.shared
    for line in sys.stdin:
        scheme = line.strip()
        if scheme not in compressors:
            text, settings = SCHEMES[scheme]
            compressors[scheme] = wc.Compressor(text, **settings)
            for _ in range(3):
                this.take_step(compressors[scheme], gradients, sums)
        with recorded(FUNCTIONS, STAGES, clocks) as recorder:
            this.take_step(compressors[scheme], gradients, sums)
        print(json.dumps({stage: recorder.totals[stage] for stage in STAGES}), flush=True)


if __name__ == "__main__":
    main()
