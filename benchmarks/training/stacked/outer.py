"""Outer optimizers of a stack: dense work where the models are, containers in processes of the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.training.runs import Run
from benchmarks.training.stacked.coders import NAME, Coded, Coders, Order, Shared
from benchmarks.training.systems.local import LocalUpdates, OuterOptimizer
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.systems.system import Tensors
from wirecodec.select.budget.selector import Budget
from wirecodec.settings.scheme import Scheme

__all__ = ["Cost", "StackedOuter"]

BITS, LEAST = 3, 8 * 128
"""Fewest bits of an element, and bits that every budget may take: both bound the elements of a container."""


@dataclass(eq=False)
class Cost:
    """What the exchanges of a run have cost: bytes of all workers, and CPU seconds of their containers."""

    nbytes: int = 0
    seconds: float = 0.0


class StackedOuter:
    """Outer optimizers of runs whose models are consecutive rows.

    Args:
        runs: all of local updates, with equal numbers of workers.
        values: parameters, (models, elements); exchanges change them.
        view: returns a row's parameters by name.
        coders: of the containers.

    Attributes:
        costs: of each run.
    """

    def __init__(
        self, runs: Sequence[Run], values: Any, view: Callable[[Any], Tensors], coders: Coders
    ) -> None:
        self.costs = [Cost() for _ in runs]
        self._coders, self._on_gpu = coders, values.is_cuda
        systems: list[Any] = [SYSTEMS[run.system] for run in runs]
        elements = values.shape[1]
        most = max(_count_candidates(system, elements) for system in systems)
        self._shared = Shared(
            self._allocate(len(values), most, torch.int32),
            self._allocate(len(values), most, torch.float32),
            elements,
        )
        coders.open(self._shared)
        self._members = []
        for number, (run, system) in enumerate(zip(runs, systems, strict=True)):
            first = number * run.workers
            rows = [values[first + worker] for worker in range(run.workers)]
            coding = _Coding(system, first, run.workers, self._shared) if system.scheme else None
            workers = [{NAME: row} if coding else view(row) for row in rows]
            outer = OuterOptimizer(workers[0], system, run.settings, run.workers, run.steps, coding)
            self._members.append(_Member(number, run.steps, system, outer, workers, coding))

    def is_due(self, step: int) -> bool:
        """Tell whether a run exchanges or applies a result after a step, counted from 1."""
        return any(one.is_due(step) for one in self._members)

    def advance(self, step: int) -> None:
        """Exchange and apply what is due after a step, counted from 1."""
        due = [one for one in self._members if one.is_due(step)]
        coding = [one for one in due if one.coding]
        for one in due:
            if one.coding:
                one.coding.begin(one.outer.measure(0, one.workers))
            else:
                self.costs[one.number].nbytes += one.outer.advance(step, one.workers)
        if self._on_gpu:
            torch.cuda.synchronize()
        coded = {
            found.row: found for found in self._coders.code([o for one in coding for o in one.coding.orders])
        }
        for one in coding:
            found = [coded[order.row] for order in one.coding.orders]
            one.outer.update(0, step, one.coding.finish(found), one.workers)
            self.costs[one.number].nbytes += sum(part.nbytes for part in found)
            self.costs[one.number].seconds += sum(part.seconds for part in found)

    def close(self) -> None:
        """Release the memory that the device reads."""
        if self._on_gpu:
            for memory in (self._shared.places, self._shared.values):
                torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())

    def _allocate(self, models: int, most: int, dtype: Any) -> Any:
        """Allocate shared memory; pages that do not move are copied several times as fast."""
        memory = torch.empty((models, max(1, most)), dtype=dtype).share_memory_()
        if self._on_gpu:
            torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)
        return memory


def _count_candidates(system: LocalUpdates, elements: int) -> int:
    """Count the elements of a movement among which the host chooses: more than the budget can take."""
    if not system.scheme:
        return 0
    selector = Scheme.parse(system.scheme).select
    if not isinstance(selector, Budget) or selector.bits is None:
        raise ValueError(f"a stack codes movements within a budget in bits, not {system.scheme}")
    return min(elements, math.ceil((selector.bits * elements + LEAST) / BITS))


@dataclass(frozen=True, eq=False)
class _Member:
    """One run of a stack; ``coding`` is None if its movements are not coded by wirecodec."""

    number: int
    steps: int
    system: LocalUpdates
    outer: OuterOptimizer
    workers: Sequence[Tensors]
    coding: Any

    def is_due(self, step: int) -> bool:
        return self.system.is_due(step, self.steps)


class _Coding:
    """Exchange of one run's movements in two halves, with what each worker has not sent.

    Error feedback is that of ``wirecodec.ErrorFeedback``, and containers are those of a ``Compressor``.

    Args:
        system: with the scheme of a budget, and without fragments.
        first: row of the first worker.
        workers: of the run.
        shared: memory for the largest elements.
    """

    def __init__(self, system: LocalUpdates, first: int, workers: int, shared: Shared) -> None:
        if system.fragments > 1 or system.delay:
            raise ValueError("a stack codes no fragments and no delayed movements")
        self._system, self._shared = system, shared
        self._rows = range(first, first + workers)
        self._count = _count_candidates(system, shared.elements)
        self._unsent: Any = None
        self.orders = [Order(row, self._count, system.scheme) for row in self._rows]

    def begin(self, moved: Sequence[Tensors]) -> None:
        """Add what was not sent to movements, and copy the largest elements to the host, perhaps later."""
        wanted = torch.stack([one[NAME] for one in moved])
        if self._unsent is not None:
            wanted += self._system.decay * self._unsent
        largest = wanted.abs().topk(self._count, dim=1, sorted=False).indices.sort(dim=1).values
        rows = slice(self._rows.start, self._rows.stop)
        self._shared.places[rows, : self._count].copy_(largest.int(), non_blocking=True)
        self._shared.values[rows, : self._count].copy_(wanted.gather(1, largest), non_blocking=True)
        self._unsent = wanted

    def finish(self, coded: Sequence[Coded]) -> Tensors:
        """Return the mean of what containers store, and keep the rest."""
        total = torch.zeros_like(self._unsent[0])
        senders = torch.zeros_like(total)
        for unsent, part in zip(self._unsent, coded, strict=True):
            stored = slice(part.count)
            places = self._shared.places[part.row, stored].to(total.device).long()
            values = self._shared.values[part.row, stored].to(total.device)
            unsent[places] -= values
            total[places] += values
            senders[places] += 1
        return {NAME: total / (senders.clamp_(min=1) if self._system.by_senders else len(coded))}

    def residuals(self, worker: int) -> Tensors:
        """Return what a worker has not sent yet."""
        return {NAME: self._unsent[worker]}
