"""Plain gradient descent, dense or with the largest of residual + gradient; and what is trained how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.training.batches import digits, sources
from benchmarks.training.models import Net, language_model, residual_network

__all__ = ["RECIPES", "Recipe", "train"]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Args:
        about: the model and its data, in words.
        net: makes the model, from torch's generator.
        batches: makes its data.
        steps: unless another number is asked for.
        rate: by which gradients are multiplied.
        clip: the greatest norm of a gradient.
    """

    about: str
    net: Callable[[], Net]
    batches: Callable[[], Iterator[tuple[Any, Any]]]
    steps: int
    rate: float
    clip: float = float("inf")


RECIPES = {
    "resnet20": Recipe(
        "ResNet-20 on 32×32×3 images made from the digits of scikit-learn, batches of 64, rate 0.1",
        residual_network,
        partial(digits, 64, 32),
        steps=300,
        rate=0.1,
    ),
    "wide20": Recipe(
        "the same, widths 51, 102, 204, 16×16×3 images, batches of 32",
        partial(residual_network, (51, 102, 204)),
        partial(digits, 32, 16),
        steps=200,
        rate=0.1,
    ),
    "lstm": Recipe(
        "a 2-layer LSTM language model, 400 units, 4000 tokens, on the sources of Python's standard library, "
        "16 rows of 35 tokens, rate 5, norm at most 0.25",
        language_model,
        partial(sources, 16, 35, 4000),
        steps=200,
        rate=5,
        clip=0.25,
    ),
}


def train(
    recipe: Recipe, steps: int, density: float | None, seen: Callable[[float], None]
) -> tuple[npt.NDArray[np.float32], Net]:
    """The flat gradient of the last step, residual added where there is one; and the model.

    The same on every run: seeded, one thread.

    Args:
        recipe: what, and how.
        steps: 1 or more.
        density: share of residual + gradient that is applied, the largest; None for the whole gradient.
        seen: called with the loss of each step.
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
            seen(loss.item())
        return np.asarray(flat.numpy()), net
    finally:
        torch.set_num_threads(threads)
