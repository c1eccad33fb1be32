"""Accuracy of the count: selected elements relative to k, over iterations, with and without error feedback.

All selectors receive the same gradients, those of a training run with dense gradients. Each has its own
residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.inputs import DENSITIES
from benchmarks.select.contenders import build_thresholds, compute_target_count

try:
    import torch

    from benchmarks.training.recipes import RECIPES
except ImportError:  # training is skipped
    torch = None

__all__ = ["MODELS", "CountAccuracy", "generate_streams", "measure_stream", "train_stream"]

MODELS = {"resnet20": 60, "lstm": 20}
"""Models to train, with their number of steps."""

Stream = Iterator[Any]
"""Flat float32 gradients, one per iteration."""


@dataclass(frozen=True)
class CountAccuracy:
    """Count of one selector on one stream of gradients.

    Attributes:
        stream: name of the stream.
        real: True for the gradients of a model.
        feedback: True if the unsent elements are added to the next gradient.
        density: the requested density.
        name: name of the selector.
        ratios: k̂/k of each iteration.
    """

    stream: str
    real: bool
    feedback: bool
    density: float
    name: str
    ratios: tuple[float, ...]


def generate_streams(n: int, iterations: int) -> dict[str, Stream]:
    """Generate streams of new elements per iteration, of one scale or of one scale per layer (64 layers)."""

    def laplace() -> Stream:
        rng = np.random.default_rng(1)
        for _ in range(iterations):
            yield rng.laplace(size=n).astype(np.float32)

    def layers() -> Stream:
        rng = np.random.default_rng(2)
        scales = np.repeat(rng.lognormal(0, 1.5, 64), -(-n // 64))[:n]
        for _ in range(iterations):
            yield (scales * rng.standard_t(4, n)).astype(np.float32)

    return {"Laplace": laplace(), "64 layers, Student's t": layers()}


def train_stream(model: str, iterations: int) -> Stream:
    """Yield the gradients of a training run from its first step; nothing if torch is missing."""
    if torch is None:
        return
    recipe = RECIPES[model]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        net, batches = recipe.net(), recipe.batches()
        parameters = list(net.parameters.values())
        for _ in range(iterations):
            gradients = torch.autograd.grad(net.loss(*next(batches)), parameters)
            flat = torch.cat([g.flatten() for g in gradients])
            flat *= (recipe.clip / flat.norm()).clamp(max=1)
            yield flat.numpy()
            with torch.no_grad():
                for p, change in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                    p.sub_(change.view_as(p), alpha=recipe.rate)
    finally:
        torch.set_num_threads(threads)


def measure_stream(
    name: str,
    stream: Stream,
    real: bool,
    step: Callable[[str], None],
    densities: Sequence[float] = DENSITIES,
) -> list[CountAccuracy]:
    """Measure every threshold selector at every density, with and without feedback.

    Args:
        name: name of the stream.
        stream: the gradients.
        real: True for the gradients of a model.
        step: called with the name of each iteration before it starts.
        densities: the densities to request.
    """
    selectors = {(d, key): one for d in densities for key, one in build_thresholds(d).items()}
    runs = [(feedback, *key) for feedback in (False, True) for key in selectors]
    ratios: dict[Any, list[float]] = {run: [] for run in runs}
    states = dict.fromkeys(runs)
    residuals: dict[Any, Any] = {}
    for t, gradient in enumerate(stream):
        step(f"k̂/k: {name}, iteration {t + 1}")
        for run in runs:
            feedback, density, key = run
            x = gradient + residuals[run] if run in residuals else gradient
            selection = selectors[density, key].select(x, gradient=gradient, state=states[run], seed=t)
            states[run] = selection.state
            count = x.size if selection.indices is None else selection.indices.size
            ratios[run].append(count / compute_target_count(density, x.size))
            if feedback:
                residuals[run] = x.copy()
                residuals[run][slice(None) if selection.indices is None else selection.indices] = 0
    return [CountAccuracy(name, real, f, d, key, tuple(r)) for (f, d, key), r in ratios.items() if r]
