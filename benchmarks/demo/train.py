"""Data-parallel training: every rank has its own images, and all apply the same mean gradient.

Both runs use ``train``; only the exchange differs. It returns the losses and bytes of each step, the accuracy
on test images, and a digest of every rank's weights.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.demo import data, model
from benchmarks.demo.exchange import Exchange
from benchmarks.demo.model import Params

__all__ = ["Run", "Settings", "apply_momentum", "compute_digest", "train"]


@dataclass(frozen=True)
class Settings:
    """Settings of both runs.

    Attributes:
        steps: number of steps.
        batch: images per step over all ranks.
        rate: initial learning rate.
        momentum: fraction of the last step that is added to the next.
        seed: seed of weights, batches and rounding.
    """

    steps: int = 400
    batch: int = 128
    rate: float = 0.1
    momentum: float = 0.9
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step: half a cosine from ``rate`` to 0."""
        return self.rate * 0.5 * (1 + math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class Run:
    """Result of a run, the same on every rank.

    Attributes:
        losses: (steps,) training loss of each step over the images of all ranks.
        sent: (steps,) bytes that a rank has sent after each step, mean over the ranks.
        test_loss, test_accuracy: on the test images, after the last step.
        seconds: duration of all steps on rank 0's clock.
        exchange_seconds: duration of the exchange, encoding included.
        digests: SHA-256 of each rank's weights, hexadecimal, in rank order.
    """

    losses: NDArray[np.float64]
    sent: NDArray[np.float64]
    test_loss: float
    test_accuracy: float
    seconds: float
    exchange_seconds: float
    digests: tuple[str, ...]

    @property
    def final_loss(self) -> float:
        """Return the mean training loss of the last 20 steps."""
        return float(self.losses[-20:].mean())

    @property
    def same_weights(self) -> bool:
        """Return True if all ranks have the same weights, bit for bit."""
        return len(set(self.digests)) == 1


def train(
    comm: Any,
    exchange: Exchange,
    settings: Settings,
    digits: tuple[data.Digits, data.Digits],
    *,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Run:
    """Train from ``model.initialise(settings.seed)``; all ranks call this together.

    Args:
        comm: an mpi4py communicator.
        exchange: averages the gradients.
        settings: the same on all ranks.
        digits: (training images, test images); each rank selects its shard.
        on_step: called after each step with its number and this rank's loss.
    """
    training, test = digits
    shard = data.shard(training, comm.rank, comm.size)
    batches = data.generate_batches(
        shard, max(1, settings.batch // comm.size), seed=settings.seed, rank=comm.rank
    )
    params = model.initialise(settings.seed)
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    losses, sent = np.empty(settings.steps), np.empty(settings.steps)
    exchanging = 0.0

    comm.Barrier()
    start = time.perf_counter()
    for step in range(settings.steps):
        batch = next(batches)
        losses[step], grads = model.compute_gradients(params, batch.images, batch.labels)
        before = time.perf_counter()
        mean = exchange.mean(grads)
        exchanging += time.perf_counter() - before
        params, velocity = apply_momentum(params, velocity, mean, settings.rate_at(step), settings.momentum)
        sent[step] = exchange.bytes_sent
        on_step(step, float(losses[step]))
    seconds = time.perf_counter() - start

    test_loss, accuracy = model.evaluate(params, test.images, test.labels)
    return Run(
        losses=_average_over_ranks(comm, losses),
        sent=_average_over_ranks(comm, sent),
        test_loss=test_loss,
        test_accuracy=accuracy,
        seconds=comm.bcast(seconds),
        exchange_seconds=comm.bcast(exchanging),
        digests=tuple(comm.allgather(compute_digest(params))),
    )


def apply_momentum(
    params: Params, velocity: Params, grads: Params, rate: float, momentum: float
) -> tuple[Params, Params]:
    """Compute v' = momentum · v + g and p' = p - rate · v' without changing the inputs.

    Args:
        params: p.
        velocity: v.
        grads: g.
        rate: learning rate.
        momentum: fraction of v in v'.

    Returns:
        The new parameters and the new velocity.
    """
    new_velocity: Params = {name: momentum * velocity[name] + grads[name] for name in params}
    return {name: params[name] - np.float32(rate) * new_velocity[name] for name in params}, new_velocity


def compute_digest(params: Params) -> str:
    """Compute the SHA-256 of names and bits, hexadecimal."""
    total = hashlib.sha256()
    for name in sorted(params):
        total.update(name.encode() + b"\0")
        total.update(np.ascontiguousarray(params[name]).tobytes())
    return total.hexdigest()


def _average_over_ranks(comm: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.empty_like(values)
    comm.Allreduce(values, total)
    total /= comm.size
    return total
