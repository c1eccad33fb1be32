"""Gradient descent, dense or with top-k and error feedback, and the recipes of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.training.batches import generate_digits, generate_source_tokens
from benchmarks.training.models import Net, build_language_model, build_residual_network

__all__ = ["RECIPES", "Recipe", "train"]


@dataclass(frozen=True)
class Recipe:
    """Training recipe of a model.

    Attributes:
        about: description of the model and its data.
        net: builds the model from torch's generator.
        batches: builds the data.
        steps: default number of steps.
        rate: learning rate.
        clip: largest norm of a gradient.
    """

    about: str
    net: Callable[[], Net]
    batches: Callable[[], Iterator[tuple[Any, Any]]]
    steps: int
    rate: float
    clip: float = float("inf")


RECIPES = {
    "resnet20": Recipe(
        "ResNet-20 on 32×32×3 images made from the digits of scikit-learn, batches of 64, learning rate 0.1",
        build_residual_network,
        partial(generate_digits, 64, 32),
        steps=300,
        rate=0.1,
    ),
    "wide20": Recipe(
        "ResNet-20 with widths 51, 102, 204, 16×16×3 images, batches of 32",
        partial(build_residual_network, (51, 102, 204)),
        partial(generate_digits, 32, 16),
        steps=200,
        rate=0.1,
    ),
    "lstm": Recipe(
        "a 2-layer LSTM language model, 400 units, 4000 tokens, on the source code of Python's standard "
        "library, 16 rows of 35 tokens, learning rate 5, gradient norm at most 0.25",
        build_language_model,
        partial(generate_source_tokens, 16, 35, 4000),
        steps=200,
        rate=5,
        clip=0.25,
    ),
}


def train(
    recipe: Recipe, steps: int, density: float | None, on_step: Callable[[float], None]
) -> tuple[npt.NDArray[np.float32], Net]:
    """Train a model; deterministic, on one thread.

    Args:
        recipe: model and data.
        steps: number of steps, 1 or more.
        density: fraction of residual + gradient to apply, the largest elements; None for dense gradients.
        on_step: called with the loss of each step.

    Returns:
        The flat gradient of the last step, with the residual if there is one, and the model.
    """
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        net, batches = recipe.net(), recipe.batches()
        parameters = list(net.parameters.values())
        sizes = [p.numel() for p in parameters]
        flat = residual = torch.zeros(sum(sizes))
        for _ in range(steps):
            loss = net.loss(*next(batches))
            flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
            flat *= (recipe.clip / flat.norm()).clamp(max=1)
            applied = flat
            if density is not None:
                flat += residual
                largest = flat.abs().topk(max(1, int(density * flat.numel()))).indices
                applied = torch.zeros_like(flat).index_copy(0, largest, flat[largest])
                residual = flat - applied
            with torch.no_grad():
                for p, change in zip(parameters, applied.split(sizes), strict=True):
                    p.sub_(change.view_as(p), alpha=recipe.rate)
            on_step(loss.item())
        return np.asarray(flat.numpy()), net
    finally:
        torch.set_num_threads(threads)
