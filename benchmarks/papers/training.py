"""Training of one network on one rank.

A selector sends a part of residual + gradient, and the rest is the next residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.papers.networks import Network

__all__ = ["Step", "run_training"]

Array = Any


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a training.

    Attributes:
        loss: of the batch.
        gradient: (d,) float32.
        x: residual + gradient.
        sent: indices that were sent; None for all.
        residual: after the step.
        parameters: after the step.
    """

    loss: float
    gradient: Array
    x: Array
    sent: Array | None
    residual: Array
    parameters: Array

    @property
    def count(self) -> int:
        """Number of elements that were sent."""
        return int(self.x.size if self.sent is None else self.sent.size)


def run_training(
    network: Network,
    selector: wc.Selector | None,
    steps: int,
    *,
    rate: float,
    feedback: bool = True,
    momentum: float = 0.0,
) -> Iterator[Step]:
    """Train with a selector, and yield every step.

    Args:
        network: model with its batches.
        selector: of the elements that are sent; None sends all.
        steps: number of steps.
        rate: learning rate.
        feedback: False to drop what is not sent.
        momentum: fraction of the last step that is added to the next.
    """
    parameters = network.start
    residual: Array = np.zeros_like(parameters)
    velocity, state = np.zeros_like(residual), None
    for step in range(steps):
        loss, gradient = network.compute(parameters, step)
        x = residual + gradient
        sent, applied = None, x
        if selector is not None:
            selection = selector.select(x, gradient=gradient, state=state, seed=step)
            sent, state = selection.indices, selection.state
            if sent is not None:
                applied = np.zeros_like(x)
                applied[sent] = x[sent] if selection.scale is None else np.sign(x[sent]) * selection.scale
        residual = x - applied if feedback else np.zeros_like(x)
        velocity = momentum * velocity + applied
        parameters = parameters - np.float32(rate) * velocity
        yield Step(loss, gradient, x, sent, residual, parameters)
