"""Endless batches without downloads: transformed digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

__all__ = ["generate_digits"]

Tensor = Any
"""Torch tensor."""


def generate_digits(
    batch: int, side: int, *, seed: int = 0, part: tuple[int, int] | None = None, noise: float = 0.2
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield images (batch, 3, side, side) in about [-2, 2], and their classes.

    The digits of scikit-learn are rotated, scaled, shifted and coloured in front of a pattern. ``part``
    limits them to those from its first number to below its second. ``noise`` is the standard deviation of
    the noise that is added.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen_digits = slice(*part) if part else slice(None)
    images = torch.tensor(data.images[chosen_digits] / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(data.target[chosen_digits])
    rng = torch.Generator().manual_seed(seed)

    def draw_between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=rng)

    while True:
        chosen = torch.randint(len(labels), (batch,), generator=rng)
        angle, zoom = draw_between(-0.4, 0.4, batch), draw_between(1, 1.6, batch)
        rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(batch, 2, 2)
        transform = torch.cat([rotation * zoom[:, None, None], draw_between(-0.25, 0.25, batch, 2, 1)], 2)
        grid = functional.affine_grid(transform, [batch, 1, side, side], align_corners=False)
        ink = functional.grid_sample(images[chosen], grid, align_corners=False)
        pattern = functional.interpolate(
            draw_between(0, 1, batch, 3, side // 8, side // 8), (side, side), mode="bilinear"
        )
        background = (pattern + draw_between(0, 1, batch, 3, 1, 1)) / 4
        image = ink * draw_between(0.5, 1, batch, 3, 1, 1) + (1 - ink) * background
        yield 4 * image - 2 + noise * torch.randn(image.shape, generator=rng), labels[chosen]
