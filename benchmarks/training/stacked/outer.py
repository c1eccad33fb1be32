"""Outer optimizers of a stack: dense work where the models are, containers in processes of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.training.runs import Run
from benchmarks.training.stacked.coders import NAME, Coded, Coders, Order, Shared
from benchmarks.training.systems.local import LocalUpdates, OuterOptimizer
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.systems.system import Tensors
from wirecodec.settings.scheme import Scheme

__all__ = ["Cost", "StackedOuter"]

BITS = 3
"""Fewest bits of an element: the candidates of a budget are its bits, divided by them."""


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
        ends = {(system.scheme_at(step, runs[0].steps)) for system in systems for step in (1, runs[0].steps)}
        most = max(count_candidates(scheme, elements) for scheme in ends)
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
            coding = _Coding(system, run.steps, first, run.workers, self._shared) if system.scheme else None
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
                one.coding.begin(step, one.outer.measure(0, one.workers))
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


def count_candidates(scheme: str, elements: int) -> int:
    """Count the elements of a movement among which the host chooses: more than a scheme's budget can take."""
    if not scheme:
        return 0
    bits = Scheme.parse(scheme).select.bits
    return min(elements, int(bits * elements / BITS) + 64)


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
        steps: of the run.
        first: row of the first worker.
        workers: of the run.
        shared: memory for the largest elements.
    """

    def __init__(self, system: LocalUpdates, steps: int, first: int, workers: int, shared: Shared) -> None:
        if system.fragments > 1 or system.delay:
            raise ValueError("a stack codes no fragments and no delayed movements")
        self._system, self._steps, self._shared = system, steps, shared
        self._rows = range(first, first + workers)
        self._unsent: Any = None
        self.orders: list[Order] = []

    def begin(self, step: int, moved: Sequence[Tensors]) -> None:
        """Add what was not sent to movements, and copy the largest elements to the host, perhaps later."""
        wanted = torch.stack([one[NAME] for one in moved])
        if self._unsent is not None:
            wanted += self._system.decay * self._unsent
        scheme = self._system.scheme_at(step, self._steps)
        count = count_candidates(scheme, self._shared.elements)
        largest = wanted.abs().topk(count, dim=1, sorted=False).indices.sort(dim=1).values
        rows = slice(self._rows.start, self._rows.stop)
        self._shared.places[rows, :count].copy_(largest.int(), non_blocking=True)
        self._shared.values[rows, :count].copy_(wanted.gather(1, largest), non_blocking=True)
        self.orders = [Order(row, count, scheme) for row in self._rows]
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
