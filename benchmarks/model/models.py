"""Shapes of whole models, and their gradients: ResNet-50, a transformer, tiny tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Model", "build_resnet50", "build_tiny", "build_transformer", "draw_gradient"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """Shapes of a model's tensors.

    Attributes:
        name: its name in the tables.
        shapes: of the tensors, in the order of their names.
        targeted: True if the targets apply to it.
    """

    name: str
    shapes: tuple[Shape, ...]
    targeted: bool = True

    @property
    def elements(self) -> int:
        """Number of elements of all tensors."""
        return sum(map(math.prod, self.shapes))


def build_resnet50() -> Model:
    """Build the shapes of ResNet-50 for 1,000 classes: 161 tensors, 25.6 million elements."""
    shapes: list[Shape] = [*_convolve(3, 64, 7)]
    inputs = 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shapes += [*_convolve(inputs, planes, 1), *_convolve(planes, planes, 3)]
            shapes += _convolve(planes, 4 * planes, 1)
            shapes += _convolve(inputs, 4 * planes, 1) if block == 0 else []
            inputs = 4 * planes
    return Model("ResNet-50", (*shapes, (1000, inputs), (1000,)))


def build_transformer(layers: int = 128, width: int = 256, words: int = 32_000) -> Model:
    """Build the shapes of a transformer with 16 tensors per layer; by default 2,052 tensors.

    Args:
        layers: number of layers.
        width: size of an embedding.
        words: size of the vocabulary.
    """
    norm: list[Shape] = [(width,), (width,)]
    attention: list[Shape] = [(width, width), (width,)] * 4
    feed_forward: list[Shape] = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    layer = [*norm, *attention, *norm, *feed_forward]
    return Model("transformer", ((words, width), (1024, width), *(layer * layers), *norm))


def build_tiny(tensors: int = 10_000) -> Model:
    """Build many vectors of 100 to 1,000 elements."""
    sizes = np.random.default_rng(0).integers(100, 1001, tensors)
    return Model("tiny tensors", tuple((int(size),) for size in sizes), targeted=False)


def draw_gradient(shapes: Sequence[Shape], seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Draw Laplace values in tensors of their own, and the same values as one flat vector.

    Args:
        shapes: of the tensors.
        seed: of the generator.

    Returns:
        {name: float32 tensor}, and the flat vector.
    """
    rng = np.random.default_rng(seed)
    flat = rng.standard_exponential(sum(map(math.prod, shapes)), dtype=np.float32)
    np.negative(flat, out=flat, where=rng.integers(0, 2, flat.size, dtype=bool))
    stops = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(flat, stops[:-1])
    named = zip(shapes, parts, strict=True)
    return {f"parameter.{i:05}": part.reshape(shape).copy() for i, (shape, part) in enumerate(named)}, flat


def _convolve(inputs: int, outputs: int, side: int) -> list[Shape]:
    """Return the shapes of a convolution without bias, and of its batch normalisation."""
    return [(outputs, inputs, side, side), (outputs,), (outputs,)]
