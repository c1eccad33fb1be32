"""Training of the demo's network (272,586 parameters, handwritten digits) on one rank, in NumPy.

The gradients of a step are one flat vector. A selector sends a part of residual + gradient, and the rest is
the next residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.demo import data, model

__all__ = ["BATCH", "RATE", "Step", "flatten", "run_training", "test_error", "unflatten"]

RATE, BATCH = 0.05, 32
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
        params: the parameters after the step.
    """

    loss: float
    gradient: Array
    x: Array
    sent: Array | None
    residual: Array
    params: model.Params

    @property
    def count(self) -> int:
        """Number of elements that were sent."""
        return int(self.x.size if self.sent is None else self.sent.size)


def flatten(params: model.Params) -> Array:
    """Concatenate named arrays."""
    return np.concatenate([array.ravel() for array in params.values()])


def unflatten(vector: Array, like: model.Params) -> model.Params:
    """Split a vector into named arrays of given shapes."""
    cuts = np.cumsum([array.size for array in like.values()])[:-1]
    parts = np.split(vector, cuts)
    return {name: part.reshape(like[name].shape) for name, part in zip(like, parts, strict=True)}


def run_training(
    selector: wc.Selector | None,
    steps: int,
    *,
    feedback: bool = True,
    rate: float = RATE,
    batch: int = BATCH,
    momentum: float = 0.0,
) -> Iterator[Step]:
    """Train with a selector, and yield every step.

    Args:
        selector: of the elements that are sent; None sends all.
        steps: number of steps.
        feedback: False to drop what is not sent.
        rate: learning rate.
        batch: images per step.
        momentum: fraction of the last step that is added to the next.
    """
    training, _ = data.load()
    batches = data.generate_batches(training, batch, seed=0, rank=0)
    params = model.initialise(0)
    residual: Array = np.zeros(sum(p.size for p in params.values()), np.float32)
    velocity, state = np.zeros_like(residual), None
    for step in range(steps):
        images = next(batches)
        loss, grads = model.compute_gradients(params, images.images, images.labels)
        gradient = flatten(grads)
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
        changes = unflatten(velocity, params)
        params = {name: p - np.float32(rate) * changes[name] for name, p in params.items()}
        yield Step(loss, gradient, x, sent, residual, params)


def test_error(params: model.Params) -> float:
    """Compute the fraction of the test images that are classified wrongly."""
    _, test = data.load()
    with np.errstate(all="ignore"):
        return 1 - model.evaluate(params, test.images, test.labels)[1]
