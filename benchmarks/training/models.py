"""Residual network of 20 layers, as named parameters and a loss (He et al. 2015, 4.2).

Shortcuts have no parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch.nn import functional

__all__ = ["Net", "build_residual_network"]

Tensor = Any
"""Torch tensor."""

CLASSES = 10
BLOCKS = 3
"""Blocks of two convolutions each, per width."""


@dataclass(frozen=True, eq=False)
class Net:
    """Trainable model.

    Attributes:
        parameters: by name, in the order of their gradients in a flat vector.
        loss: computes the loss from inputs and targets.
        logits: computes the scores of the classes from inputs.
    """

    parameters: dict[str, Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    logits: Callable[[Tensor], Tensor]


def build_residual_network(widths: tuple[int, ...] = (16, 32, 64)) -> Net:
    """Build the residual network: 269,722 parameters at the default widths.

    Each width but the first halves the image.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    before = 3
    for name, width in _name_convolutions(widths):
        shapes[f"{name}.weight"] = (width, before, 3, 3)
        shapes[f"{name}.scale"] = shapes[f"{name}.shift"] = (width,)
        before = width
    shapes |= {"out.weight": (CLASSES, before), "out.bias": (CLASSES,)}
    p = {name: _initialise(name, shape).requires_grad_() for name, shape in shapes.items()}

    def convolve(x: Tensor, name: str, stride: int) -> Tensor:
        x = functional.conv2d(x, p[f"{name}.weight"], stride=stride, padding=1)
        return functional.batch_norm(x, None, None, p[f"{name}.scale"], p[f"{name}.shift"], training=True)

    def logits(images: Tensor) -> Tensor:
        x = functional.relu(convolve(images, "in", 1))
        for level in range(len(widths)):
            for block in range(BLOCKS):
                stride = 2 if level and not block else 1
                y = functional.relu(convolve(x, f"{level}.{block}.a", stride))
                y = convolve(y, f"{level}.{block}.b", 1)
                missing = y.shape[1] - x.shape[1]
                short = functional.pad(
                    x[:, :, ::stride, ::stride], (0, 0, 0, 0, missing // 2, missing - missing // 2)
                )
                x = functional.relu(y + short)
        return functional.linear(x.mean((2, 3)), p["out.weight"], p["out.bias"])

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits(images), labels)

    return Net(p, loss, logits)


def _name_convolutions(widths: tuple[int, ...]) -> list[tuple[str, int]]:
    inner = [
        (f"{level}.{block}.{half}", width)
        for level, width in enumerate(widths)
        for block in range(BLOCKS)
        for half in "ab"
    ]
    return [("in", widths[0]), *inner]


def _initialise(name: str, shape: tuple[int, ...]) -> Tensor:
    if name.endswith("scale"):
        return torch.ones(shape)
    if name.endswith(("shift", "bias")):
        return torch.zeros(shape)
    inputs = shape[1] * 9 if len(shape) == 4 else shape[1]
    return torch.randn(shape) * sqrt(2 / inputs)
