"""Language model with the size of GPT-2's smallest: 148 tensors, 124 million parameters."""

from __future__ import annotations

from typing import Any

__all__ = ["LAYERS", "LENGTH", "TINY", "WIDTH", "WORDS", "build_model", "list_shapes"]

LAYERS, WIDTH, HEADS, WORDS = 12, 768, 12, 50_304
LENGTH = 1024
TINY = (2, 64, 2)
"""Layers, width and heads for a test."""


def list_shapes(layers: int = LAYERS, width: int = WIDTH, words: int = WORDS) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters; the output layer is the embedding."""
    matrices = (3 * width, width), (width, width), (4 * width, width), (width, 4 * width)
    block = [(width,)] * 4 + [shape for out, in_ in matrices for shape in ((out, in_), (out,))]
    return [(LENGTH, width), (words, width), *block * layers, (width,), (width,)]


def build_model(tiny: bool) -> Any:
    """Build the language model, whose output layer is the embedding."""
    import torch
    from torch import nn

    layers, width, heads = TINY if tiny else (LAYERS, WIDTH, HEADS)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            size = x.shape[:2]
            parts = self.attend(self.norms[0](x)).view(*size, 3, heads, -1).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.project(seen.transpose(1, 2).reshape(*size, width))
            return x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))

    class LanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, width)
            self.position = nn.Parameter(torch.zeros(LENGTH, width))
            self.layers = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            nn.init.normal_(self.embedding.weight, std=0.02)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens) + self.position
            for layer in self.layers:
                x = layer(x)
            return nn.functional.linear(self.norm(x), self.embedding.weight)

    return LanguageModel()
