"""SparseLoCo as published: the largest 64 of each block of 64 x 64, with 12-bit places and 2-bit values.

Sarfi et al., 2025 (arXiv 2508.15706), Algorithm 1, with the quantiser of the authors' public code: four
bins of 1.5 standard deviations around the mean of a tensor's kept values, each decoded as the mean of its
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

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
        workers: number of workers.
        decay: of the residual.
        by_senders: whether an element's mean is over the workers that sent it, as in the public code; the
            paper's is over all.
    """

    def __init__(self, workers: int, decay: float, *, by_senders: bool) -> None:
        self._residuals: list[Tensors] = [{} for _ in range(workers)]
        self._decay, self._by_senders = decay, by_senders

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of what was sent, and 14 bits per element."""
        total = {name: torch.zeros_like(x) for name, x in gradients[0].items()}
        senders = {name: torch.zeros_like(x) for name, x in gradients[0].items()}
        count = 0
        for one, residuals in zip(gradients, self._residuals, strict=True):
            for name, x in one.items():
                wanted = x + self._decay * residuals.get(name, torch.zeros(()))
                blocks = to_blocks(wanted)
                places = blocks.abs().topk(min(KEPT, blocks.shape[1]), dim=1, sorted=False).indices
                sent = torch.zeros_like(blocks).scatter_(1, places, quantise(blocks.gather(1, places)))
                received = from_blocks(sent, x.shape)
                residuals[name] = wanted - received
                total[name] += received
                senders[name] += from_blocks(torch.zeros_like(blocks).scatter_(1, places, 1.0), x.shape)
                count += places.numel()
        for name, x in total.items():
            x.div_(senders[name].clamp_(min=1) if self._by_senders else len(gradients))
        return total, BITS * count // 8


def quantise(values: Any) -> Any:
    """Return values as the means of their bins."""
    mean = values.mean()
    centred = values - mean
    width = RANGE * centred.norm() / max(1, centred.numel() - 1) ** 0.5 / BINS
    if not width:
        return values.clone()
    bins = (centred / width + BINS // 2).round().clamp(0, BINS - 1).long().flatten()
    sums = torch.zeros(BINS).index_add_(0, bins, centred.flatten())
    counts = torch.zeros(BINS).index_add_(0, bins, torch.ones(bins.numel()))
    return (sums / counts.clamp(min=1) + mean)[bins].view_as(values)


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
