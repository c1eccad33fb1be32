"""Local updates: workers take steps of their own, and exchange how far their parameters moved.

The outer optimizer is that of DiLoCo (Douillard et al., 2023, Algorithm 1): the mean movement is a gradient,
with Nesterov momentum. As published, the inner optimizer has momentum 0.9, and compressed movements have a
residual that decays (SparseLoCo; Sarfi et al., 2025). Fragments, delay and alpha are those of Streaming
DiLoCo (Douillard et al., 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.training.systems.codec import Codec
from benchmarks.training.systems.plain import Dense
from benchmarks.training.systems.sparseloco import SparseLoCoExchange
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings
from collectives.local_updates.fragments import divide_parameters

__all__ = ["LocalUpdates", "Outer", "OuterOptimizer"]

PUBLISHED_OUTER = {0.9: (0.7, 0.9), 0.0: (1.0, 0.5)}
"""Rate and Nesterov momentum of the outer optimizer, by the grid's momentum: two tries, as for the others.

The inner optimizer keeps momentum 0.9 in both.
"""
WEAK_OUTER = {0.9: (1.0, 0.5), 0.0: (1.0, 0.3)}
"""The same with weaker momenta, for an inner optimizer with a momentum of its own."""

Outer = tuple[float, float]
"""Rate and Nesterov momentum of an outer optimizer."""


@dataclass(frozen=True)
class LocalUpdates(System):
    """Exchange of movements.

    Args:
        every_steps: steps between two exchanges.
        scheme: of the movements as one vector, or an empty string for dense.
        decay: of the residual.
        outer: rate and Nesterov momentum of the outer optimizer; the inner one then has the grid's momentum.
            None: two tries in place of the grid's momenta.
        inner: momentum of the inner optimizer, with weak outer momenta; None: 0.9, with the published ones.
        outers: the two tries in place of the grid's momenta, with the grid's first momenta inside.
        fragments: parts of the parameters, exchanged in turn.
        delay: steps after which a result is applied.
        alpha: share of a worker's own parameters when a result is applied.
        keep: share of the movement that was not sent, which a worker's own parameters keep.
        by_senders: whether an element's mean is over the workers that sent it.
        published: whether movements are sent as SparseLoCo publishes it, in place of ``scheme``.
    """

    every_steps: int = 15
    scheme: str = ""
    decay: float = 0.95
    outer: Outer | None = None
    inner: float | None = None
    outers: tuple[Outer, Outer] | None = None
    fragments: int = 1
    delay: int = 0
    alpha: float = 0.0
    keep: float = 0.0
    by_senders: bool = False
    published: bool = False

    def optimizer_settings(self, settings: Settings) -> Settings:
        """Return the inner optimizer's settings: the grid's, or its rate with the momentum of ``inner``."""
        if self.outers is not None:
            return Settings(settings.rate, 0.9, 0.99)
        if self.outer is not None:
            return settings
        if self.inner is not None:
            return Settings(settings.rate, self.inner, 0.99 if settings.beta2 else 0.0)
        return Settings(settings.rate, 0.9, 0.999 if settings.beta2 else 0.0)

    def outer_settings(self, settings: Settings) -> Outer:
        """Return the rate and the Nesterov momentum of the outer optimizer."""
        if self.outers is not None:
            return self.outers[settings.momentum != 0.9]
        if self.outer is not None:
            return self.outer
        return (PUBLISHED_OUTER if self.inner is None else WEAK_OUTER)[settings.momentum]

    def describe_settings(self, settings: Settings) -> str:
        """Return the inner optimizer's settings and the outer ones, which a point of the grid selects."""
        rate, momentum = self.outer_settings(settings)
        return f"{self.optimizer_settings(settings)}; outer rate {rate:g}, momentum {momentum:g}"

    def list_due(self, step: int, steps: int) -> list[int]:
        """Return the fragments that are exchanged after a step, counted from 1; all after the last one."""
        places = [part * self.every_steps // self.fragments for part in range(self.fragments)]
        return [
            part for part, place in enumerate(places) if step == steps or step % self.every_steps == place
        ]

    def is_due(self, step: int, steps: int) -> bool:
        """Tell whether a fragment is exchanged, or a result is applied, after a step."""
        earlier = step - self.delay
        return bool(self.list_due(step, steps)) or (earlier > 0 and bool(self.list_due(earlier, steps)))

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return the exchange of movements; the caller gives it to an OuterOptimizer."""
        if self.published:
            return SparseLoCoExchange(self.decay, by_senders=self.by_senders)
        inner: System = Dense(self.name, self.group)
        if self.scheme:
            inner = Codec(
                self.name, self.group, self.scheme, decay=self.decay, whole=True, by_senders=self.by_senders
            )
        return inner.open(workers, settings, steps)


@dataclass(eq=False)
class _Due:
    """A result that is applied later: the step, the parameters, and what each worker keeps apart."""

    step: int
    values: Tensors
    unsent: Sequence[Tensors]


@dataclass(eq=False)
class OuterOptimizer:
    """Outer optimizer with the parameters of the last exchange.

    Args:
        parameters: of worker 0; all workers start with them.
        system: its schedule.
        settings: the point of the grid.
        workers, steps: of the run.
        exchange: of the movements, if it is not the system's.
    """

    parameters: Tensors
    system: LocalUpdates
    settings: Settings
    workers: int
    steps: int
    exchange: Any = None
    _late: list[_Due] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.anchor = {name: p.detach().clone() for name, p in self.parameters.items()}
        self._velocity = {name: torch.zeros_like(p) for name, p in self.anchor.items()}
        self._unsent: list[Tensors] = [{} for _ in range(self.workers)]
        sizes = {name: p.numel() for name, p in self.anchor.items()}
        self._parts = divide_parameters(sizes, self.system.fragments)
        self._exchanges: list[Any] = [
            self.exchange or self.system.open(self.workers, self.settings, self.steps) for _ in self._parts
        ]

    def advance(self, step: int, workers: Sequence[Tensors]) -> int:
        """Exchange and apply what is due after a step, counted from 1; return the bytes of all workers."""
        for late in [one for one in self._late if one.step <= step or step == self.steps]:
            self._apply(late, workers)
            self._late.remove(late)
        sent = 0
        for part in self.system.list_due(step, self.steps):
            mean, nbytes = self._exchanges[part].mean(self.measure(part, workers))
            self.update(part, step, mean, workers)
            sent += nbytes
        return sent

    def measure(self, part: int, workers: Sequence[Tensors]) -> list[Tensors]:
        """Return the movements of a fragment since its last exchange."""
        names, keep = self._parts[part], self.system.keep
        moved = []
        for one, unsent in zip(workers, self._unsent, strict=True):
            start = {name: self.anchor[name] - keep * unsent.get(name, 0.0) for name in names}
            moved.append({name: start[name] - one[name].detach() for name in names})
        return moved

    def update(self, part: int, step: int, mean: Tensors, workers: Sequence[Tensors]) -> None:
        """Take an outer step with the mean movement of a fragment, and apply it now or after the delay."""
        names, keep = self._parts[part], self.system.keep
        if keep:
            residuals: Callable[[int], Tensors] = self._exchanges[part].residuals
            for worker in range(len(workers)):
                self._unsent[worker] |= residuals(worker)
        rate, momentum = self.system.outer_settings(self.settings)
        for name in names:
            velocity = self._velocity[name].mul_(momentum).add_(mean[name])
            self.anchor[name].sub_(mean[name] + momentum * velocity, alpha=rate)
        values = {name: self.anchor[name].clone() for name in names}
        keeps = keep and step < self.steps  # the last result is the common model
        kept = [{name: keep * unsent[name] for name in names} if keeps else {} for unsent in self._unsent]
        result = _Due(step + self.system.delay, values, kept)
        if self.system.delay and step + self.system.delay < self.steps:
            self._late.append(result)
        else:
            self._apply(result, workers)

    def _apply(self, result: _Due, workers: Sequence[Tensors]) -> None:
        with torch.no_grad():
            for one, unsent in zip(workers, result.unsent, strict=True):
                for name, value in result.values.items():
                    one[name].mul_(self.system.alpha).add_(
                        value - unsent.get(name, 0.0), alpha=1 - self.system.alpha
                    )
