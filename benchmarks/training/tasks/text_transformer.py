"""Task text-transformer: a transformer of four layers and one million parameters; AdamW."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Embedding, LayerNorm, Linear, Module, TransformerEncoder, TransformerEncoderLayer

from benchmarks.training.tasks import systems
from benchmarks.training.tasks.corpus import CHARACTERS, compute_digest
from benchmarks.training.tasks.language import LENGTH, CharacterModel
from benchmarks.training.tasks.task import Settings, Task

__all__ = ["TASK"]

LAYERS, WIDTH, HEADS, INNER = 4, 144, 4, 576

GRID = tuple(
    Settings(rate, beta1, beta2)
    for beta1, beta2 in ((0.0, 0.99), (0.9, 0.999))
    for rate in (3e-3, 6e-3, 1.5e-3, 1.2e-2)
)


class _Model(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(CHARACTERS, WIDTH)
        self.position = Embedding(LENGTH, WIDTH)
        layer = TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = LayerNorm(WIDTH)
        self.out = Linear(WIDTH, CHARACTERS)

    def forward(self, characters: Any) -> Any:
        length = characters.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embedding(characters) + self.position(torch.arange(length))
        return self.out(self.norm(self.layers(x, mask=mask, is_causal=True)))


TASK = Task(
    name="text-transformer",
    about=(
        "a transformer of four layers (width 144, 4 heads, one million parameters) on the same "
        "characters; 8 rows of 64 per worker; AdamW, weight decay 0.01"
    ),
    metric="perplexity",
    higher_is_better=False,
    optimizer="adamw",
    steps=600,
    warm_up=50,
    clip=1.0,
    grid=GRID,
    build=lambda seed: CharacterModel(_Model, seed, LENGTH),
    digest=compute_digest,
    systems=systems.TRANSFORMER,
)
