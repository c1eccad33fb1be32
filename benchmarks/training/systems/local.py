"""Local updates: workers take steps of their own, and exchange how far their parameters moved.

The outer optimizer is that of DiLoCo (Douillard et al., 2023, Algorithm 1): the mean movement is a gradient,
with Nesterov momentum. As published, the inner optimizer has momentum 0.9, and compressed movements have a
residual that decays (SparseLoCo; Sarfi et al., 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.training.systems.codec import Codec
from benchmarks.training.systems.plain import Dense
from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["LocalUpdates", "OuterOptimizer"]

PUBLISHED_OUTER = {0.9: (0.7, 0.9), 0.0: (1.0, 0.5)}
"""Rate and Nesterov momentum of the outer optimizer, by the grid's momentum: two tries, as for the others.

The inner optimizer keeps momentum 0.9 in both.
"""
WEAK_OUTER = {0.9: (1.0, 0.5), 0.0: (1.0, 0.3)}
"""The same with weaker momenta, for an inner optimizer with a momentum of its own."""


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
    """

    every_steps: int = 15
    scheme: str = ""
    decay: float = 0.95
    outer: tuple[float, float] | None = None
    inner: float | None = None

    def optimizer_settings(self, settings: Settings) -> Settings:
        """Return the inner optimizer's settings: the grid's, or its rate with the momentum of ``inner``."""
        if self.outer is not None:
            return settings
        if self.inner is not None:
            return Settings(settings.rate, self.inner, 0.99 if settings.beta2 else 0.0)
        return Settings(settings.rate, 0.9, 0.999 if settings.beta2 else 0.0)

    def outer_settings(self, settings: Settings) -> tuple[float, float]:
        """Return the rate and the Nesterov momentum of the outer optimizer."""
        if self.outer is not None:
            return self.outer
        return (PUBLISHED_OUTER if self.inner is None else WEAK_OUTER)[settings.momentum]

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return the exchange of movements; the caller gives it to an OuterOptimizer."""
        inner: System = Dense(self.name, self.group)
        if self.scheme:
            inner = Codec(self.name, self.group, self.scheme, decay=self.decay, whole=True)
        return inner.open(workers, settings, steps)


class OuterOptimizer:
    """Outer optimizer with the parameters of the last exchange.

    Args:
        parameters: of all workers, equal at the start.
        exchange: averages movements.
        rate, momentum: of Nesterov's method.
    """

    def __init__(self, parameters: Tensors, exchange: Exchange, rate: float, momentum: float) -> None:
        self._anchor = {name: p.detach().clone() for name, p in parameters.items()}
        self._velocity = {name: torch.zeros_like(p) for name, p in self._anchor.items()}
        self._exchange, self._rate, self._momentum = exchange, rate, momentum

    def exchange(self, workers: Sequence[Tensors]) -> int:
        """Average the movements, set all workers' parameters to the result, and return the bytes of all."""
        moved = [{name: self._anchor[name] - p.detach() for name, p in one.items()} for one in workers]
        mean, sent = self._exchange.mean(moved)
        for name, anchor in self._anchor.items():
            velocity = self._velocity[name].mul_(self._momentum).add_(mean[name])
            anchor.sub_(mean[name] + self._momentum * velocity, alpha=self._rate)
        with torch.no_grad():
            for one in workers:
                for name, p in one.items():
                    p.copy_(self._anchor[name])
        return sent
