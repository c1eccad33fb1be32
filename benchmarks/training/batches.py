"""Endless batches: digits, turned and coloured before a pattern; and Python's own sources as text."""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

__all__ = ["digits", "sources"]

Tensor = Any
"""A torch tensor."""

TOKEN = re.compile(r"[A-Za-z_]+|\d|\n| +|[^\sA-Za-z_\d]")
FILES = 400


def digits(batch: int, side: int, *, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """(batch, 3, side, side) images about -2 … 2, and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(data.target)
    rng = torch.Generator().manual_seed(seed)

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=rng)

    while True:
        drawn = torch.randint(len(labels), (batch,), generator=rng)
        angle, zoom = between(-0.4, 0.4, batch), between(1, 1.6, batch)
        turned = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(batch, 2, 2)
        place = torch.cat([turned * zoom[:, None, None], between(-0.25, 0.25, batch, 2, 1)], 2)
        grid = functional.affine_grid(place, [batch, 1, side, side], align_corners=False)
        ink = functional.grid_sample(images[drawn], grid, align_corners=False)
        pattern = functional.interpolate(
            between(0, 1, batch, 3, side // 8, side // 8), (side, side), mode="bilinear"
        )
        ground = (pattern + between(0, 1, batch, 3, 1, 1)) / 4
        shown = ink * between(0.5, 1, batch, 3, 1, 1) + (1 - ink) * ground
        yield 4 * shown - 2 + 0.2 * torch.randn(shown.shape, generator=rng), labels[drawn]


def sources(batch: int, length: int, vocabulary: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(batch, length) tokens of the standard library, by falling frequency, and the token after each.

    Words, digits, signs, line ends and spaces are tokens; 0 stands for those too rare for the vocabulary.
    Each row goes on where it ended in the batch before.
    """
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:FILES]
    tokens = TOKEN.findall("\n".join(file.read_text("utf-8", errors="ignore") for file in files))
    common = Counter(tokens).most_common(vocabulary - 1)
    number = {token: i for i, (token, _) in enumerate(common, 1)}
    ids = torch.tensor([number.get(token, 0) for token in tokens])
    rows = ids[: len(ids) // batch * batch].view(batch, -1)
    while True:
        for start in range(0, rows.shape[1] - length, length):
            yield rows[:, start : start + length], rows[:, start + 1 : start + length + 1]
