"""PowerSGD with error feedback and warm start, the arithmetic of torch's hook, for workers in one process.

Vogels et al., 2019, Algorithm 1 and 2. Each step has two sums over the workers, of P = M Q and of Q = Mᵀ P.
Tensors that two factors would not make ``min_rate`` times smaller are averaged as they are, as in
``torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook``.

The hook itself runs on gloo only if all gradients are in one bucket. With more, its callbacks start the
sums of P and Q of several buckets on gloo's threads, in an order that differs between ranks. Gloo matches
collectives by their order, so a rank receives another sum's bytes. The process then aborts with "Received
data size doesn't match expected size" (torch 2.13). A ``bucket_cap_mb`` above the model's size avoids it.
It may also abort after the group is destroyed, with "Resource deadlock avoided": a future of the hook holds
the last reference to the group, and one of gloo's threads drops it. A reference held elsewhere avoids that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.training.systems.system import Exchange, System, Tensors
from benchmarks.training.tasks.task import Settings

__all__ = ["PowerSGD", "PowerSGDExchange"]


HOOK_SEED = int(np.random.RandomState(0).randint(1_000_000_000))
"""Seed of the first Q in torch's hook."""


@dataclass(frozen=True)
class PowerSGD(System):
    """PowerSGD of a rank.

    Args:
        rank: columns of the factors.
        min_rate: factor by which a tensor must become smaller; the default of torch's hook.
        start: steps that are averaged dense before; torch's default is 1,000, its smallest 2.
    """

    rank: int = 4
    min_rate: float = 2.0
    start: int = 2

    def open(self, workers: int, settings: Settings, steps: int) -> Exchange:
        """Return an Exchange with random factors."""
        return PowerSGDExchange(self.rank, self.min_rate, self.start, workers)


class PowerSGDExchange:
    """State of PowerSGD: the last Q of each matrix, and each worker's residuals.

    Args:
        rank, min_rate, start: as for ``PowerSGD``.
        workers: number of workers.
    """

    def __init__(self, rank: int, min_rate: float, start: int, workers: int) -> None:
        self._rank, self._min_rate, self._start = rank, min_rate, start
        self._generator = torch.Generator().manual_seed(HOOK_SEED)
        self._q: Tensors = {}
        self._residuals: list[Tensors] = [{} for _ in range(workers)]
        self._step = 0

    def mean(self, gradients: Sequence[Tensors]) -> tuple[Tensors, int]:
        """Return the mean, and 4 bytes per element of the factors and of tensors that are not factored."""
        workers = len(gradients)
        total: Tensors = {}
        sent = 0
        for name, first in gradients[0].items():
            rows = first.shape[0]
            columns = first.numel() // rows
            rank = min(self._rank, rows, columns)
            small = (rows + columns) * rank * self._min_rate >= first.numel() or first.ndim < 2
            if small or self._step < self._start:
                total[name] = sum(one[name] for one in gradients) / workers
                sent += workers * first.numel()
                continue
            matrices = [
                one[name].reshape(rows, columns) + residuals.get(name, 0)
                for one, residuals in zip(gradients, self._residuals, strict=True)
            ]
            if name not in self._q:
                self._q[name] = torch.randn(columns, rank, generator=self._generator)
            q = torch.linalg.qr(self._q[name]).Q
            p = torch.linalg.qr(sum(m @ q for m in matrices)).Q
            q = sum(m.T @ p for m in matrices) / workers
            self._q[name] = q
            product = p @ q.T
            for matrix, residuals in zip(matrices, self._residuals, strict=True):
                residuals[name] = matrix - product
            total[name] = product.view_as(first)
            sent += workers * (p.numel() + q.numel())
        self._step += 1
        return total, 4 * sent
