"""Task text-long: a transformer of 2.2 million parameters and 6,000 steps, for local updates; AdamW."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Embedding, LayerNorm, Linear, Module, ModuleList, functional

from benchmarks.training.tasks import systems
from benchmarks.training.tasks.corpus import CHARACTERS, compute_digest
from benchmarks.training.tasks.language import LENGTH, CharacterModel
from benchmarks.training.tasks.task import Settings, Task

__all__ = ["TASK"]

LAYERS, WIDTH, HEADS, INNER = 4, 208, 4, 832

GRID = tuple(Settings(rate, beta1, 0.99) for beta1 in (0.9, 0.8) for rate in (1e-3, 2e-3))
"""Local updates try two outer optimizers in place of the two momenta."""


class _Block(Module):  # type: ignore[misc]
    """Attention and a feed-forward network; rows are joined, so that a stack of models has plain products."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.inner_norm = LayerNorm(WIDTH), LayerNorm(WIDTH)
        self.projections, self.joined = Linear(WIDTH, 3 * WIDTH), Linear(WIDTH, WIDTH)
        self.inner, self.outer = Linear(WIDTH, INNER), Linear(INNER, WIDTH)

    def forward(self, x: Any, mask: Any) -> Any:
        length = len(mask)
        parts = self.projections(self.attention_norm(x)).view(-1, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + mask).softmax(-1)
        x = x + self.joined((weights @ value).transpose(1, 2).reshape(-1, WIDTH))
        return x + self.outer(functional.gelu(self.inner(self.inner_norm(x))))


class _Model(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(CHARACTERS, WIDTH)
        self.position = Embedding(LENGTH, WIDTH)
        self.blocks = ModuleList(_Block() for _ in range(LAYERS))
        self.norm = LayerNorm(WIDTH)
        self.out = Linear(WIDTH, CHARACTERS)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        torch.nn.init.normal_(self.position.weight, std=0.02)
        self.register_buffer("alphabet", torch.arange(CHARACTERS), persistent=False)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, characters: Any) -> Any:
        rows, length = characters.shape
        letters = (characters.reshape(-1, 1) == self.alphabet).to(self.mask.dtype)
        x = letters @ self.embedding.weight
        x = (x.view(rows, length, WIDTH) + self.position.weight[:length]).view(-1, WIDTH)
        for block in self.blocks:
            x = block(x, self.mask[:length, :length])
        return self.out(self.norm(x)).view(rows, length, CHARACTERS)


TASK = Task(
    name="text-long",
    about=(
        "a transformer of four layers (width 208, 4 heads, 2.2 million parameters) on the same characters, "
        "for local updates; 8 rows of 64 per worker; AdamW, weight decay 0.01"
    ),
    metric="perplexity",
    higher_is_better=False,
    optimizer="adamw",
    steps=6000,
    warm_up=200,
    clip=1.0,
    grid=GRID,
    build=lambda seed: CharacterModel(_Model, seed, LENGTH),
    digest=compute_digest,
    systems=systems.TEXT_LONG,
)
