"""SparseLoCo as published: the largest 64 of each block of 64 x 64, with 12-bit places and 2-bit values.

Sarfi et al., 2025 (arXiv 2508.15706), Algorithm 1, with the quantiser of the authors' public code: four
bins of 1.5 standard deviations around the mean of a tensor's kept values, each decoded as the mean of its
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.func import vmap

from benchmarks.training.systems.system import Tensors

__all__ = ["BITS", "SparseLoCoExchange", "find_side", "from_blocks", "quantise", "to_blocks"]

SIDE, KEPT = 64, 64
"""Largest side of a block, and elements that are sent of each."""
BITS = 14
"""Bits of one element: its place in the block, and its bin."""
BINS, RANGE = 4, 6.0
"""Bins, and the standard deviations that they cover together."""


class SparseLoCoExchange:
    """Exchange of the quantised largest elements of each block, with a residual per worker.

    Args:
        decay: of the residuals.
        by_senders: whether an element's mean is over the workers that sent it, as in the public code; the
            paper's is over all.
    """

    def __init__(self, decay: float, *, by_senders: bool) -> None:
        self._residuals: Tensors = {}
        self._decay, self._by_senders = decay, by_senders

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of what was sent, and 14 bits per element."""
        total, count = {}, 0
        for name, first in gradients[0].items():
            wanted = torch.stack([one[name] for one in gradients])
            if name in self._residuals:
                wanted += self._decay * self._residuals[name]
            blocks = vmap(to_blocks)(wanted)
            places = blocks.abs().topk(min(KEPT, blocks.shape[-1]), sorted=False).indices
            kept = vmap(quantise)(blocks.gather(-1, places))
            to_tensors = vmap(partial(from_blocks, shape=first.shape))
            received = to_tensors(torch.zeros_like(blocks).scatter_(-1, places, kept))
            senders = to_tensors(torch.zeros_like(blocks).scatter_(-1, places, 1.0)).sum(0).clamp_(min=1)
            self._residuals[name] = wanted - received
            total[name] = received.sum(0) / (senders if self._by_senders else len(gradients))
            count += places.numel()
        return total, BITS * count // 8


def quantise(values: Any) -> Any:
    """Return values as the means of their bins."""
    mean = values.mean()
    centred = values - mean
    width = RANGE * centred.norm() / max(1, centred.numel() - 1) ** 0.5 / BINS
    width = torch.where(width > 0, width, 1.0)
    bins = (centred / width + BINS // 2).round().clamp(0, BINS - 1)
    found = torch.zeros_like(values)
    for number in range(BINS):
        members = bins == number
        found += members * ((members * centred).sum() / members.sum().clamp(min=1) + mean)
    return found


def to_blocks(x: Any) -> Any:
    """Return blocks (n, elements) of a matrix, or of any other tensor as one row."""
    if x.ndim != 2:
        return x.reshape(-1, find_side(x.numel()))
    rows, columns = map(find_side, x.shape)
    return x.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).transpose(1, 2).reshape(-1, rows * columns)


def from_blocks(blocks: Any, shape: Any) -> Any:
    """Return the tensor of blocks."""
    if len(shape) != 2:
        return blocks.reshape(shape)
    rows, columns = map(find_side, shape)
    parts = blocks.view(shape[0] // rows, shape[1] // columns, rows, columns)
    return parts.transpose(1, 2).reshape(shape)


def find_side(size: int) -> int:
    """Return the largest divisor of a size up to 64."""
    return max(n for n in range(1, min(size, SIDE) + 1) if size % n == 0)
