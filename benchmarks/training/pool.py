"""Runs in processes of their own, one thread each, with a progress bar; results are saved as they arrive."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from rich.progress import Progress

from benchmarks.common.processes import one_thread
from benchmarks.training.plan import Plan
from benchmarks.training.runs import Result, Run, save_result
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task

__all__ = ["run_missing"]

STEPS_PER_REPORT = 10

_worker: dict[str, Any] = {}
"""In a worker process: the queue to the progress bar."""


def _start(reports: Any) -> None:
    _worker["reports"] = reports


def _train(run: Run) -> Result:
    from benchmarks.training.train import train  # it imports torch after the environment is set

    done = 0

    def on_step() -> None:
        nonlocal done
        done += 1
        if done % STEPS_PER_REPORT == 0:
            _worker["reports"].put((run.key, done))

    return train(run, on_step)


def describe_run(run: Run) -> str:
    """Describe a run in one line."""
    return f"{run.task}: {run.system}, {run.settings}, seed {run.seed}"


def run_missing(
    plan: Plan,
    cells: Sequence[tuple[Task, System]],
    *,
    jobs: int,
    minutes: float,
    progress: Progress,
) -> None:
    """Run all that is missing, and save each result.

    Args:
        plan: the runs and their folder.
        cells: tasks and systems that are wanted, in order.
        jobs: processes at a time.
        minutes: no run starts after them; those that have started are completed.
        progress: shows the number of runs, and the steps of each active run.
    """
    end = time.monotonic() + 60 * minutes
    context = multiprocessing.get_context("spawn")
    with one_thread(), context.Manager() as manager:
        reports = manager.Queue()
        bar = progress.add_task("all runs", total=None)
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(reports,)) as pool:
            active: dict[Future[Result], tuple[Run, Any]] = {}
            bars: dict[str, Any] = {}
            started: set[Run] = set()
            done = 0
            while True:
                left = [run for run in plan.list_missing(cells) if run not in started]
                progress.update(bar, completed=done, total=done + len(active) + len(left))
                for run in left[: jobs - len(active)] if time.monotonic() < end else ():
                    shown = progress.add_task(describe_run(run), total=run.steps)
                    active[pool.submit(_train, run)] = (run, shown)
                    bars[run.key] = shown
                    started.add(run)
                if not active:
                    return
                complete = wait(active, timeout=1, return_when=FIRST_COMPLETED).done
                _show_steps(reports, bars, progress)
                for future in complete:
                    run, shown = active.pop(future)
                    result = future.result()
                    save_result(result, plan.folder)
                    progress.remove_task(shown)
                    bars.pop(run.key)
                    done += 1
                    text = f"{describe_run(run)}: {describe_result(result)}"
                    progress.console.print(text, highlight=False, soft_wrap=True)


def describe_result(result: Result) -> str:
    """Describe metric, bits and time in one line."""
    metric = result.error or f"validation {result.validation:.4g}, test {result.test:.4g}"
    return f"{metric}, {result.bits:.3g} bits, {result.seconds:.0f} s of CPU"


def _show_steps(reports: Any, bars: dict[str, Any], progress: Progress) -> None:
    while True:
        try:
            key, done = reports.get_nowait()
        except queue.Empty:
            return
        if key in bars:
            progress.update(bars[key], completed=done)
