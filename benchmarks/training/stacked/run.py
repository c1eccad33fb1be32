"""Run what is missing in stacks, with a progress bar; results are saved as each stack ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import torch
from rich.progress import Progress, TaskID

from benchmarks.common.processes import one_thread
from benchmarks.training.plan import Plan
from benchmarks.training.pool import describe_result, describe_run
from benchmarks.training.runs import Run, save_result
from benchmarks.training.stacked.coders import Coders
from benchmarks.training.stacked.train import is_together, train_stack
from benchmarks.training.systems.local import LocalUpdates
from benchmarks.training.systems.plain import Dense
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task
from benchmarks.training.tasks.text_long import TASK

__all__ = ["can_stack", "run_stacks"]


def run_stacks(
    plan: Plan,
    cells: Sequence[tuple[Task, System]],
    *,
    device: str,
    most: int,
    jobs: int,
    minutes: float,
    progress: Progress,
) -> None:
    """Run all that is missing of text-long with dense gradients or local updates.

    Args:
        plan: as for ``run_missing``.
        cells: tasks and systems that are wanted; others than these are left out.
        device: of the models.
        most: runs of a stack.
        jobs: processes that code movements.
        minutes: a stack that is not complete by then is dropped.
        progress: shows the steps of each stack.

    Raises:
        SystemExit: no cell can be trained so.
    """
    cells = [cell for cell in cells if can_stack(*cell)]
    if not cells:
        raise SystemExit("stacks are for text-long, with dense gradients or local updates")
    stop = time.monotonic() + 60 * minutes
    if device == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, for all systems alike
    with one_thread():
        coders = Coders(jobs)
        try:
            while time.monotonic() < stop:
                runs = _choose(plan.list_missing(cells), most)
                if not runs:
                    break
                shown = progress.add_task(f"{len(runs)} runs of {runs[0].task}", total=runs[0].steps)
                on_step = partial(_show, progress, shown)
                results = train_stack(runs, coders, device, on_step, stop)
                progress.remove_task(shown)
                for result in results:
                    save_result(result, plan.folder)
                    line = f"{describe_run(result.run)}: {describe_result(result)}"
                    progress.console.print(line, highlight=False, soft_wrap=True)
        finally:
            coders.close()


def can_stack(task: Task, system: System) -> bool:
    """Tell whether a stack trains a cell: other systems' gradients would be averaged as dense ones."""
    return task is TASK and type(system) in (Dense, LocalUpdates)


def _show(progress: Progress, bar: TaskID, done: int) -> None:
    progress.update(bar, completed=done)


def _choose(missing: Sequence[Run], most: int) -> list[Run]:
    """Choose the first missing runs that can be one stack."""
    if not missing:
        return []
    kind = missing[0].task, missing[0].steps, missing[0].workers, is_together(missing[0])
    alike = [run for run in missing if (run.task, run.steps, run.workers, is_together(run)) == kind]
    return alike[:most]
