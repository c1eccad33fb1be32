"""Models whose steps are predicted: ResNet-50, and a transformer of a billion parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.model.models import Shape, build_resnet50, build_transformer

__all__ = ["MODELS", "Subject"]


@dataclass(frozen=True)
class Subject:
    """Model, and the part of it that is measured.

    Attributes:
        name: in tables.
        shapes: of all tensors.
        measured: shapes of the measured tensors; times of the whole model are in proportion to its elements.
    """

    name: str
    shapes: tuple[Shape, ...]
    measured: tuple[Shape, ...]

    @property
    def elements(self) -> int:
        """Number of elements of the model."""
        return sum(map(math.prod, self.shapes))

    @property
    def scale(self) -> float:
        """Size of the model, in sizes of the measured part."""
        return self.elements / sum(map(math.prod, self.measured))


def _build_billion() -> Subject:
    """Build 18 layers of width 2,048 with 50,257 words, of which an 18th is measured."""
    layers, width, words = 18, 2048, 50_257
    whole = build_transformer(layers, width, words)
    part = build_transformer(1, width, words // layers)
    return Subject("transformer", whole.shapes, part.shapes)


def _build_resnet50() -> Subject:
    shapes = build_resnet50().shapes
    return Subject("ResNet-50", shapes, shapes)


MODELS = {subject.name: subject for subject in (_build_resnet50(), _build_billion())}
"""By name."""
