"""Processes that exchange the movements of many runs, each those of some runs, in memory that all share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.multiprocessing as mp

__all__ = ["OuterPool"]


@dataclass(frozen=True)
class _Open:
    """Runs of a process from now on: (first row, run), and the rows of all models."""

    runs: Sequence[tuple[int, Any]]
    rows: Any


class _Server:
    """Outer optimizers of some runs."""

    def __init__(self) -> None:
        self._opened: dict[int, Any] = {}

    def answer(self, order: _Open | int) -> dict[int, tuple[int, float]] | str:
        """Follow an order; return {first row: (bytes, CPU seconds)}, or an error's text."""
        try:
            if isinstance(order, _Open):
                self._opened = {first: _build(run, first, order.rows) for first, run in order.runs}
                return {}
            found = {first: _advance(one, order) for first, one in self._opened.items()}
            return {first: answer for first, answer in found.items() if answer}
        except Exception as error:
            return f"{type(error).__name__}: {error}"


class _Local:
    """The end of a pipe to a server in this process."""

    def __init__(self) -> None:
        self._server = _Server()
        self._answer: Any = None

    def send(self, order: Any) -> None:
        self._answer = None if order is None else self._server.answer(order)

    def recv(self) -> Any:
        return self._answer


class OuterPool:
    """Pool of processes with the outer optimizers of runs.

    Args:
        jobs: number of processes; 0 works in this one.
    """

    def __init__(self, jobs: int) -> None:
        self._pipes: list[Any] = [] if jobs else [_Local()]
        context = mp.get_context("spawn")
        for _ in range(jobs):
            own, other = context.Pipe()
            context.Process(target=_serve, args=(other,), daemon=True).start()
            self._pipes.append(own)

    def open(self, runs: Sequence[Any], workers: int, rows: Any) -> None:
        """Begin runs: their models are consecutive rows (models, elements) of shared memory."""
        numbered = [(number * workers, run) for number, run in enumerate(runs)]
        count = len(self._pipes)
        self._ask([_Open(numbered[turn::count], rows) for turn in range(count)])

    def advance(self, step: int) -> dict[int, tuple[int, float]]:
        """Exchange what is due after a step; return {first row: (bytes, CPU seconds)}."""
        return self._ask([step] * len(self._pipes))

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(None)

    def _ask(self, orders: Sequence[Any]) -> dict[int, tuple[int, float]]:
        found: dict[int, tuple[int, float]] = {}
        for pipe, order in zip(self._pipes, orders, strict=True):
            pipe.send(order)
        for answer in [pipe.recv() for pipe in self._pipes]:
            if isinstance(answer, str):
                raise RuntimeError(answer)
            found |= answer
        return found


def _serve(pipe: Any) -> None:
    torch.set_num_threads(1)
    server = _Server()
    while (order := pipe.recv()) is not None:
        pipe.send(server.answer(order))


def _build(run: Any, first: int, rows: Any) -> Any:
    from benchmarks.training.stacked.stack import view_rows
    from benchmarks.training.systems.local import OuterOptimizer
    from benchmarks.training.systems.registry import SYSTEMS
    from benchmarks.training.tasks.registry import TASKS

    shapes = {name: p.shape for name, p in TASKS[run.task].build(run.seed).model.named_parameters()}
    workers = [view_rows(rows[first + worker], shapes) for worker in range(run.workers)]
    system: Any = SYSTEMS[run.system]
    return system, run, OuterOptimizer(workers[0], system, run.settings, run.workers, run.steps), workers


def _advance(one: Any, step: int) -> tuple[int, float] | None:
    system, run, outer, workers = one
    if not system.is_due(step, run.steps):
        return None
    before = time.process_time()
    return outer.advance(step, workers), time.process_time() - before
