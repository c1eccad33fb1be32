"""Models whose training steps are measured, with random data. torch is imported when a model is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["MODELS", "TINY", "Problem", "build"]

MLP, TRANSFORMER, EMBEDDING = "MLP", "transformer", "embedding"
MODELS = (MLP, TRANSFORMER, EMBEDDING)
TINY = "tiny"
"""A model of 49,536 parameters, for tests."""


@dataclass(frozen=True)
class Problem:
    """A model and the loss of one batch.

    Attributes:
        model: of torch.
        loss: computes the loss with the model, or with what wraps it.
    """

    model: Any
    loss: Callable[[Any], Any]


def build(name: str, seed: int) -> Problem:
    """Build a model, the same for each call, and a random batch.

    Args:
        name: of ``MODELS``, or ``TINY``.
        seed: of the batch.
    """
    import torch

    torch.manual_seed(0)
    random = torch.Generator().manual_seed(1000 + seed)
    if name == TRANSFORMER:
        return _build_transformer(random)
    if name == EMBEDDING:
        return _build_embedding(random)
    width, layers = {MLP: (1000, 10), TINY: (128, 3)}[name]
    return _build_layers(width, layers, random)


def _build_layers(width: int, layers: int, random: Any) -> Problem:
    """Build a network of equal layers."""
    import torch

    parts: list[Any] = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    inputs = torch.randn(32, width, generator=random)
    targets = torch.randint(width, (32,), generator=random)
    criterion = torch.nn.CrossEntropyLoss()
    return Problem(torch.nn.Sequential(*parts[:-1]), lambda model: criterion(model(inputs), targets))


def _build_transformer(random: Any) -> Problem:
    """Build a language model of 12 layers, whose output layer is the embedding."""
    import torch

    words, width, length = 8448, 256, 64

    class LanguageModel(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(words, width)
            self.position = torch.nn.Parameter(torch.zeros(length, width))
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
                for _ in range(12)
            )
            self.norm = torch.nn.LayerNorm(width)
            torch.nn.init.normal_(self.embedding.weight, std=0.02)

        def forward(self, tokens: Any) -> Any:
            hidden = self.embedding(tokens) + self.position
            for layer in self.layers:
                hidden = layer(hidden)
            return torch.nn.functional.linear(self.norm(hidden), self.embedding.weight)

    tokens = torch.randint(words, (2, length), generator=random)
    targets = torch.randint(words, (2 * length,), generator=random)
    criterion = torch.nn.CrossEntropyLoss()
    return Problem(
        LanguageModel(), lambda model: criterion(model(tokens).reshape(2 * length, words), targets)
    )


def _build_embedding(random: Any) -> Problem:
    """Build a classifier of bags of words, most of whose parameters are a dense gradient's rows of zeros."""
    import torch

    words, width, hidden, classes = 120_000, 128, 512, 1024
    model = torch.nn.Sequential(
        torch.nn.EmbeddingBag(words, width, sparse=False),
        torch.nn.Linear(width, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, classes),
    )
    bags = torch.randint(words, (64, 16), generator=random)
    targets = torch.randint(classes, (64,), generator=random)
    criterion = torch.nn.CrossEntropyLoss()
    return Problem(model, lambda wrapped: criterion(wrapped(bags), targets))
