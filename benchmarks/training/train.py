"""One run: four workers in one process, one system, one point of the grid."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

import wirecodec as wc
from benchmarks.training.runs import Result, Run, average_losses
from benchmarks.training.systems.local import LocalUpdates, OuterOptimizer
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.systems.system import System, Tensors
from benchmarks.training.tasks.registry import TASKS
from benchmarks.training.tasks.task import Settings, Task

__all__ = ["compute_rate", "describe_versions", "train"]

LOWEST = 0.05
"""Fraction of the highest rate at the end."""


@dataclass
class _Progress:
    """Progress of a run.

    Attributes:
        losses: of each step.
        sent: bytes of all workers.
        compression: CPU seconds of all exchanges.
        error: why the run ended early.
    """

    losses: list[float] = field(default_factory=list)
    sent: int = 0
    compression: float = 0.0
    error: str = ""

    def exchange(self, call: Callable[[], tuple[Any, int]]) -> Any:
        """Call an exchange, and count its bytes and seconds."""
        before = time.process_time()
        mean, nbytes = call()
        self.compression += time.process_time() - before
        self.sent += nbytes
        return mean


def describe_versions() -> str:
    """Return the versions of the libraries that results depend on."""
    versions = f"wirecodec {wc.__version__}, torch {torch.__version__}, NumPy {np.__version__}"
    return f"{versions}, Python {platform.python_version()}"


def compute_rate(task: Task, highest: float, step: int, steps: int) -> float:
    """Return the learning rate of a step: a linear rise from 0, then a cosine to 5 %."""
    rise = min(1.0, (step + 1) / max(1, min(task.warm_up, steps // 4)))
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return highest * rise * (LOWEST + (1 - LOWEST) * cosine)


def build_optimizer(task: Task, parameters: Any, settings: Settings) -> Any:
    """Build a torch optimizer; its rate is set before each step."""
    if task.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=settings.rate, momentum=settings.momentum)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[task.optimizer]
    return kind(parameters, lr=settings.rate, betas=(settings.momentum, settings.beta2))


def compute_gradients(
    problem: Any, parameters: Tensors, step: int, worker: int, clip: float | None
) -> tuple[Tensors, float]:
    """Return a worker's clipped gradients and its loss."""
    loss = problem.loss(step, worker)
    found = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    if clip is not None:
        norm = torch.sqrt(sum(g.square().sum() for g in found.values()))
        factor = (clip / norm).clamp(max=1)
        found = {name: g * factor for name, g in found.items()}
    return {name: g.contiguous() for name, g in found.items()}, float(loss.detach())


def train(run: Run, on_step: Callable[[], None] = lambda: None, system: System | None = None) -> Result:
    """Train on one thread, and evaluate.

    A loss or gradient that is not finite ends the run; its result is ``diverged``.

    Args:
        run: what to train.
        on_step: called after each step.
        system: the run's; None for the registered one with its name.
    """
    torch.set_num_threads(1)
    task, system = TASKS[run.task], system or SYSTEMS[run.system]
    start = time.process_time()
    problem = task.build(run.seed)
    progress = _Progress()
    try:
        if isinstance(system, LocalUpdates):
            _train_locally(run, task, system, problem, progress, on_step)
        else:
            _train_together(run, task, system, problem, progress, on_step)
    except wc.EncodeError as error:
        progress.error = str(error)
    losses, diverged = progress.losses, len(progress.losses) < run.steps
    elements = sum(p.numel() for p in problem.model.parameters())
    count = max(1, len(losses)) * run.workers
    return Result(
        run=run,
        validation=math.nan if diverged else problem.evaluate("validation"),
        test=math.nan if diverged else problem.evaluate("test"),
        bits=8 * progress.sent / (count * elements),
        compression_seconds=progress.compression / count,
        seconds=time.process_time() - start,
        losses=average_losses(losses, run.steps),
        parameters=elements,
        versions=describe_versions(),
        error=progress.error or ("not finite" if diverged else ""),
    )


def _train_together(
    run: Run, task: Task, system: System, problem: Any, progress: _Progress, on_step: Callable[[], None]
) -> None:
    parameters = dict(problem.model.named_parameters())
    settings = system.optimizer_settings(run.settings)
    optimizer = build_optimizer(task, parameters.values(), settings)
    exchange = system.open(run.workers, run.settings, run.steps)
    workers = range(system.count_working(run.workers))
    for step in range(run.steps):
        found = [compute_gradients(problem, parameters, step, worker, task.clip) for worker in workers]
        loss = sum(loss for _, loss in found) / len(workers)
        if not math.isfinite(loss) or not all(_are_finite(gradients) for gradients, _ in found):
            break
        mean = progress.exchange(partial(exchange.mean, [gradients for gradients, _ in found]))
        for name, p in parameters.items():
            p.grad = mean[name]
        optimizer.param_groups[0]["lr"] = compute_rate(task, settings.rate, step, run.steps)
        optimizer.step()
        progress.losses.append(loss)
        on_step()


def _train_locally(
    run: Run,
    task: Task,
    system: LocalUpdates,
    problem: Any,
    progress: _Progress,
    on_step: Callable[[], None],
) -> None:
    """Train with one model per worker; the problem's model is worker 0's."""
    settings = system.optimizer_settings(run.settings)
    problems = [problem, *(task.build(run.seed) for _ in range(run.workers - 1))]
    workers = [dict(one.model.named_parameters()) for one in problems]
    optimizers = [build_optimizer(task, one.values(), settings) for one in workers]
    outer = OuterOptimizer(workers[0], system, run.settings, run.workers, run.steps)
    for step in range(run.steps):
        loss = 0.0
        for worker, (one, parameters, optimizer) in enumerate(
            zip(problems, workers, optimizers, strict=True)
        ):
            gradients, own = compute_gradients(one, parameters, step, worker, task.clip)
            for name, p in parameters.items():
                p.grad = gradients[name]
            optimizer.param_groups[0]["lr"] = compute_rate(task, settings.rate, step, run.steps)
            optimizer.step()
            loss += own / run.workers
        if not math.isfinite(loss) or not all(_are_finite(parameters) for parameters in workers):
            break
        if system.is_due(step + 1, run.steps):
            progress.exchange(partial(_advance, outer, step + 1, workers))
        progress.losses.append(loss)
        on_step()


def _advance(outer: OuterOptimizer, step: int, workers: list[Tensors]) -> tuple[None, int]:
    return None, outer.advance(step, workers)


def _are_finite(tensors: Tensors) -> bool:
    return all(bool(torch.isfinite(x).all()) for x in tensors.values())
