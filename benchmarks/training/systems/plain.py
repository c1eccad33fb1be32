"""Systems without wirecodec: dense float32, float16 and bfloat16, and top-k as published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["Alone", "Cast", "Dense", "PlainTopK"]


def _average(parts: Sequence[Tensors]) -> Tensors:
    """Return the mean over workers of each tensor, added up in the order of the workers."""
    return {name: sum(part[name] for part in parts[1:]) + parts[0][name] for name in parts[0]}


@dataclass(frozen=True)
class Dense(System):
    """Mean of float32 gradients."""

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without state."""
        return _CastExchange(torch.float32)


@dataclass(frozen=True)
class Alone(System):
    """One worker without the others: every system that sends something should be better."""

    def count_working(self, workers: int) -> int:
        """Return 1."""
        return 1

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without state."""
        return _AloneExchange()


class _AloneExchange:
    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the first worker's gradients, and no bytes."""
        return gradients[0], 0


@dataclass(frozen=True)
class Cast(System):
    """Sum of gradients that are divided by the number of workers and rounded, as by torch's compress hooks.

    Args:
        dtype: "float16" or "bfloat16".
    """

    dtype: str = "float16"

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without state."""
        return _CastExchange(getattr(torch, self.dtype))


class _CastExchange:
    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean, and 2 or 4 bytes per element and worker."""
        workers = len(gradients)
        parts = [{name: x.to(self._dtype) / workers for name, x in one.items()} for one in gradients]
        total = {name: x.float() for name, x in _average(parts).items()}
        return total, sum(x.numel() * x.element_size() for part in parts for x in part.values())


@dataclass(frozen=True)
class PlainTopK(System):
    """Top-k per tensor with error feedback; each element takes an int32 index and a float32 value.

    Args:
        ratio: fraction of a tensor's elements that is sent, at least one.
    """

    ratio: float = 0.01

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange without residuals yet."""
        return _TopKExchange(self.ratio, workers)


class _TopKExchange:
    def __init__(self, ratio: float, workers: int) -> None:
        self._ratio = ratio
        self._residuals: list[Tensors] = [{} for _ in range(workers)]

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean of the sparse gradients, and 8 bytes per sent element."""
        total = {name: torch.zeros_like(x) for name, x in gradients[0].items()}
        sent = 0
        for one, residuals in zip(gradients, self._residuals, strict=True):
            for name, x in one.items():
                flat = x.flatten() + residuals.get(name, 0)
                count = max(1, int(self._ratio * flat.numel()))
                at = flat.abs().topk(count, sorted=False).indices
                total[name].view(-1).index_add_(0, at, flat[at], alpha=1 / len(gradients))
                residuals[name] = flat.index_fill(0, at, 0)
                sent += count
        return total, 8 * sent
