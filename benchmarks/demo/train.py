"""Data-parallel training: every rank has its own images, and steps with the mean gradient of all.

``train`` is the same loop for both runs; only the exchange differs. It ends with what is needed to judge the
run: losses and bytes by step, accuracy on images that were not trained on, and whether all ranks ended with
the same weights, bit for bit.
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

__all__ = ["Run", "Settings", "digest", "momentum_step", "train"]


@dataclass(frozen=True)
class Settings:
    """The same for both runs.

    Attributes:
        steps: of a run.
        batch: images in a step; each rank takes its part of them.
        rate: the learning rate at first.
        momentum: how much of the last step goes into the next.
        seed: of weights, batches and rounding.
    """

    steps: int = 400
    batch: int = 128
    rate: float = 0.1
    momentum: float = 0.9
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """The learning rate falls from ``rate`` to 0 along half a cosine."""
        return self.rate * 0.5 * (1 + math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class Run:
    """What came out of a run; the same on every rank.

    Attributes:
        losses: (steps,) training loss of each step's images, all ranks' together.
        sent: (steps,) bytes that a rank had sent after each step, mean over the ranks.
        test_loss, test_accuracy: on the test images, after the last step.
        seconds: from the first step to the last, rank 0's clock; exchange_seconds: of these, in the exchange,
            encoding included.
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
        """Training loss, mean of the last 20 steps."""
        return float(self.losses[-20:].mean())

    @property
    def same_weights(self) -> bool:
        """Whether all ranks ended with the same bits."""
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
        exchange: how the mean gradient is had.
        settings: the same on all ranks.
        digits: (training images, test images), whole; each rank takes its shard.
        on_step: called after each step with its number and this rank's loss.
    """
    training, test = digits
    own = data.shard(training, comm.rank, comm.size)
    batches = data.batches(own, max(1, settings.batch // comm.size), seed=settings.seed, rank=comm.rank)
    params = model.initialise(settings.seed)
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    losses, sent = np.empty(settings.steps), np.empty(settings.steps)
    exchanging = 0.0

    comm.Barrier()
    start = time.perf_counter()
    for step in range(settings.steps):
        batch = next(batches)
        losses[step], grads = model.loss_and_gradients(params, batch.images, batch.labels)
        before = time.perf_counter()
        mean = exchange.mean(grads)
        exchanging += time.perf_counter() - before
        params, velocity = momentum_step(params, velocity, mean, settings.rate_at(step), settings.momentum)
        sent[step] = exchange.bytes_sent
        on_step(step, float(losses[step]))
    seconds = time.perf_counter() - start

    test_loss, accuracy = model.evaluate(params, test.images, test.labels)
    return Run(
        losses=_mean_over_ranks(comm, losses),
        sent=_mean_over_ranks(comm, sent),
        test_loss=test_loss,
        test_accuracy=accuracy,
        seconds=comm.bcast(seconds),
        exchange_seconds=comm.bcast(exchanging),
        digests=tuple(comm.allgather(digest(params))),
    )


def momentum_step(
    params: Params, velocity: Params, grads: Params, rate: float, momentum: float
) -> tuple[Params, Params]:
    """(parameters, velocity) after v' = momentum · v + g and p' = p - rate · v'; nothing changes in place.

    Args:
        params: p.
        velocity: v.
        grads: g.
        rate: the learning rate.
        momentum: how much of v goes into v'.
    """
    faster: Params = {name: momentum * velocity[name] + grads[name] for name in params}
    return {name: params[name] - np.float32(rate) * faster[name] for name in params}, faster


def digest(params: Params) -> str:
    """SHA-256 of names and bits, hexadecimal."""
    total = hashlib.sha256()
    for name in sorted(params):
        total.update(name.encode() + b"\0")
        total.update(np.ascontiguousarray(params[name]).tobytes())
    return total.hexdigest()


def _mean_over_ranks(comm: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.empty_like(values)
    comm.Allreduce(values, total)
    total /= comm.size
    return total
