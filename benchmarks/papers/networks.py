"""Networks of the figures about training: the demo's in NumPy, and three of benchmarks/training in torch.

The parameters of a network are one flat vector, and so is its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.demo import data, model

__all__ = ["NETWORKS", "Network", "build_demo", "build_embedding", "build_resnet20", "flatten", "unflatten"]

Array = Any
IMAGES, SIDE = 8, 16
ROWS, LENGTH = 4, 32
PAIRS = 128


@dataclass(frozen=True, eq=False)
class Network:
    """Model with its batches.

    Attributes:
        start: (d,) float32, the first parameters.
        compute: computes (loss, gradient) of the next batch from parameters and the number of the step.
        evaluate: computes the metric of the test data from parameters.
    """

    start: Array
    compute: Callable[[Array, int], tuple[float, Array]]
    evaluate: Callable[[Array], float]


@dataclass(frozen=True)
class NetworkKind:
    """Network by name.

    Attributes:
        rate: learning rate.
        build: makes the Network.
    """

    rate: float
    build: Callable[[], Network]


@cache
def _initialise() -> model.Params:
    return model.initialise(0)


def flatten(params: model.Params) -> Array:
    """Concatenate the arrays of the demo's network in the order of the network, whatever the mapping's is."""
    return np.concatenate([params[name].ravel() for name in _initialise()])


def unflatten(vector: Array) -> model.Params:
    """Split a vector into the arrays of the demo's network."""
    like = _initialise()
    parts = np.split(vector, np.cumsum([array.size for array in like.values()])[:-1])
    return {name: part.reshape(like[name].shape) for name, part in zip(like, parts, strict=True)}


def build_demo(batch: int = 32, rank: int = 0, ranks: int = 1, seed: int = 0) -> Network:
    """Build the demo's network for one rank's shard of the digits.

    Args:
        batch: images per step.
        rank, ranks: the shard.
        seed: of the first parameters and of the order of the digits.
    """
    training, test = data.load()
    batches = data.generate_batches(data.shard(training, rank, ranks), batch, seed=seed, rank=rank)

    def compute(vector: Array, step: int) -> tuple[float, Array]:
        drawn = next(batches)
        loss, grads = model.compute_gradients(unflatten(vector), drawn.images, drawn.labels)
        return loss, flatten(grads)

    def evaluate(vector: Array) -> float:
        with np.errstate(all="ignore"):
            return model.evaluate(unflatten(vector), test.images, test.labels)[1]

    return Network(flatten(model.initialise(seed)), compute, evaluate)


def _build_torch(
    parameters: list[Any], loss: Callable[[int], Any], evaluate: Callable[[], float], clip: float = np.inf
) -> Network:
    """Build a network of torch parameters, which ``loss`` and ``evaluate`` use."""
    import torch
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    torch.set_num_threads(1)

    def compute(vector: Array, step: int) -> tuple[float, Array]:
        vector_to_parameters(torch.from_numpy(vector), parameters)
        found = loss(step)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(found, parameters)])
        if clip < np.inf:
            gradient *= (clip / gradient.norm()).clamp(max=1)
        return float(found.detach()), gradient.numpy()

    def measure(vector: Array) -> float:
        vector_to_parameters(torch.from_numpy(vector), parameters)
        return evaluate()

    with torch.no_grad():
        start = parameters_to_vector(parameters).numpy().copy()
    return Network(start, compute, measure)


def build_resnet20(images: int = IMAGES) -> Network:
    """Build ResNet-20 with rendered digits; ``images`` per step."""
    import torch

    from benchmarks.training.batches import generate_digits
    from benchmarks.training.tasks.images import PARTS, TASK

    torch.manual_seed(0)
    problem: Any = TASK.build(0)
    batches: Iterator[Any] = generate_digits(images, SIDE, seed=10, part=PARTS["train"])
    net = problem.model.net
    return _build_torch(
        list(problem.model.parameters()),
        lambda step: net.loss(*next(batches)),
        lambda: problem.evaluate("test"),
    )


def _build_lstm() -> Network:
    import torch
    from torch.nn import functional

    from benchmarks.training.tasks.corpus import draw_windows, load_characters
    from benchmarks.training.tasks.text_lstm import TASK

    problem = TASK.build(0)

    def loss(step: int) -> Any:
        windows = torch.from_numpy(draw_windows(load_characters("train"), ROWS, LENGTH, (0, step, 0)))
        return functional.cross_entropy(
            problem.model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
        )

    parameters = list(problem.model.parameters())
    return _build_torch(parameters, loss, lambda: problem.evaluate("test"), clip=1.0)


def build_embedding(pairs: int = PAIRS) -> Network:
    """Build the skip-gram embeddings; ``pairs`` per step."""
    from benchmarks.training.tasks.recommendations import Recommendations

    problem = Recommendations(0, pairs)
    parameters = list(problem.model.parameters())
    return _build_torch(parameters, lambda step: problem.loss(step, 0), lambda: problem.evaluate("test"))


NETWORKS = {
    "demo": NetworkKind(0.05, build_demo),
    "ResNet-20": NetworkKind(0.1, build_resnet20),
    "LSTM": NetworkKind(4.0, _build_lstm),
    "embedding": NetworkKind(10.0, build_embedding),
}
"""The networks of SIDCo's Figure 9 by name."""
