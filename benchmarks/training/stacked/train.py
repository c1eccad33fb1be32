"""Train many runs at once: dense ones, or local updates whose movements go through real containers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.training.runs import Result, Run, average_losses
from benchmarks.training.stacked.coders import Coders
from benchmarks.training.stacked.outer import Cost, StackedOuter
from benchmarks.training.stacked.stack import Plan, Stack
from benchmarks.training.systems.local import LocalUpdates
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.tasks.corpus import draw_starts, load_characters
from benchmarks.training.tasks.language import LENGTH, ROWS, CharacterModel
from benchmarks.training.tasks.registry import TASKS
from benchmarks.training.train import compute_rate, describe_versions

__all__ = ["is_together", "train_stack"]


def is_together(run: Run) -> bool:
    """Tell whether a run's workers average gradients in each step."""
    return not isinstance(SYSTEMS[run.system], LocalUpdates)


def train_stack(
    runs: Sequence[Run],
    coders: Coders,
    device: str,
    on_step: Callable[[int], None] = lambda _: None,
    stop: float = math.inf,
) -> list[Result]:
    """Train runs of one task, all dense or all local updates; see ``train``.

    Args:
        runs: with equal numbers of steps and workers.
        coders: of the containers.
        device: of the models.
        on_step: called with the number of steps taken.
        stop: on the clock of ``time.monotonic``; runs that are not complete then have no result.
    """
    first = runs[0]
    task, workers, steps = TASKS[first.task], first.workers, first.steps
    problems: dict[int, Any] = {seed: task.build(seed) for seed in dict.fromkeys(run.seed for run in runs)}
    modules = [problems[run.seed].model for run in runs for _ in range(workers)]
    stack, together = Stack(modules, _plan(runs, device)), is_together(first)
    start, done = time.monotonic(), 0
    outer = None if together else StackedOuter(runs, stack.values, stack.view, coders)
    for step in range(1, steps + 1):
        is_due = outer is not None and outer.is_due(step)
        if not is_due and step % 50 and step < steps:
            continue
        stack.run(step - done)
        done = step
        if outer and is_due:
            outer.advance(step)
        elif device == "cuda":
            torch.cuda.synchronize()
        on_step(done)
        if time.monotonic() > stop:
            break
    if outer:
        outer.close()
    if done < steps:
        return []
    losses = stack.losses.view(steps, len(runs), workers).mean(2).cpu().numpy()
    elements, total = stack.values.shape[1], time.monotonic() - start
    costs = outer.costs if outer else [Cost(4 * elements * workers * steps)] * len(runs)
    return [
        Result(
            run=run,
            **_evaluate(stack, number * workers, problems[run.seed], np.isfinite(losses[:, number]).all()),
            bits=8 * costs[number].nbytes / (steps * workers * elements),
            compression_seconds=costs[number].seconds / (steps * workers),
            seconds=total / len(runs),
            losses=average_losses([float(x) for x in losses[:, number]], steps),
            parameters=elements,
            versions=f"{describe_versions()}, stacked on {device}",
        )
        for number, run in enumerate(runs)
    ]


def _plan(runs: Sequence[Run], device: str) -> Plan:
    first, text = runs[0], load_characters("train")
    task, workers, steps = TASKS[first.task], first.workers, first.steps
    settings = [SYSTEMS[run.system].optimizer_settings(run.settings) for run in runs]
    known = {
        seed: np.array(
            [
                [draw_starts(text, ROWS, LENGTH, (seed, step, worker)) for worker in range(workers)]
                for step in range(steps)
            ]
        )
        for seed in dict.fromkeys(run.seed for run in runs)
    }
    starts = np.concatenate([known[run.seed] for run in runs], axis=1)
    rates = [[compute_rate(task, one.rate, step, steps) for one in settings] for step in range(steps)]
    return Plan(
        text=torch.from_numpy(text).to(device),
        starts=torch.from_numpy(starts).to(device),
        length=LENGTH,
        workers=workers,
        rates=torch.tensor(rates, dtype=torch.float32, device=device),
        betas=[(one.momentum, one.beta2) for one in settings],
        clip=task.clip or math.inf,
        is_together=is_together(first),
    )


def _evaluate(stack: Stack, row: int, problem: CharacterModel, is_finite: bool) -> dict[str, Any]:
    """Return the perplexities and the error of a run whose first model is a row."""
    if not is_finite:
        return {"validation": math.nan, "test": math.nan, "error": "not finite"}
    found = {}
    for split in ("validation", "test"):
        mean = stack.evaluate(stack.values[row], torch.from_numpy(problem.windows(split)))
        found[split] = math.exp(min(mean, 50.0))
    return found
