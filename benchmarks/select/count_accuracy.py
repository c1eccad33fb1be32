"""How near to k selectors come, iteration after iteration, with and without error feedback.

All see the same gradients, those of one training that applies them whole; each has a residual of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.select.contenders import DENSITIES, judged
from wirecodec.select.topk import share_of

try:
    import torch

    from benchmarks.training.recipes import RECIPES
except ImportError:  # then only what is synthetic or saved is judged
    torch = None

__all__ = ["MODELS", "Quality", "judge", "synthetic", "trained"]

MODELS = {"resnet20": 60, "lstm": 20}
"""What is trained, and how many steps of it are judged."""

Stream = Iterator[Any]
"""Flat float32 gradients, one an iteration."""


@dataclass(frozen=True)
class Quality:
    """One selector on one stream of gradients.

    Args:
        stream: by name.
        real: whether its gradients are those of a model.
        feedback: whether what was not sent is added to the next gradient.
        density: that was asked for.
        name: of the selector.
        ratios: k̂/k of each iteration.
    """

    stream: str
    real: bool
    feedback: bool
    density: float
    name: str
    ratios: tuple[float, ...]


def synthetic(n: int, iterations: int) -> dict[str, Stream]:
    """New elements at each iteration, of one scale or of one for each of 64 layers."""

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


def trained(model: str, iterations: int) -> Stream:
    """Gradients of a training from its first step on; none without torch."""
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


def judge(
    name: str,
    stream: Stream,
    real: bool,
    step: Callable[[str], None],
    densities: Sequence[float] = DENSITIES,
) -> list[Quality]:
    """Every selector that need not meet k, at every density, with and without feedback.

    Args:
        name: of the stream.
        stream: gradients.
        real: whether they are those of a model.
        step: called at each iteration.
        densities: to ask for.
    """
    selectors = {(d, key): one for d in densities for key, one in judged(d).items()}
    runs = [(feedback, *key) for feedback in (False, True) for key in selectors]
    ratios: dict[Any, list[float]] = {run: [] for run in runs}
    states = dict.fromkeys(runs)
    residuals: dict[Any, Any] = {}
    for t, gradient in enumerate(stream):
        step(f"k̂/k: {name}, iteration {t + 1}")
        for run in runs:
            feedback, density, key = run
            x = gradient + residuals[run] if run in residuals else gradient
            chosen = selectors[density, key].select(x, gradient=gradient, state=states[run], seed=t)
            states[run] = chosen.state
            kept = x.size if chosen.indices is None else chosen.indices.size
            ratios[run].append(kept / share_of(density, x.size))
            if feedback:
                residuals[run] = x.copy()
                residuals[run][slice(None) if chosen.indices is None else chosen.indices] = 0
    return [Quality(name, real, f, d, key, tuple(found)) for (f, d, key), found in ratios.items() if found]
