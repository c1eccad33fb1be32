"""LocalUpdates against dense NumPy references, written from the papers' algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.oracles import Array

WORKERS, SIZE, EVERY, ROUNDS = 3, 40, 4, 5


class Descent:
    """Inner optimizer: gradient descent with momentum on the worker's own quadratic."""

    def __init__(self, w: Array, worker: int) -> None:
        rng = np.random.default_rng(worker)
        self.w, self.target, self.scale = w, rng.normal(size=SIZE), rng.uniform(0.1, 1, SIZE)
        self.velocity = np.zeros(SIZE)

    def step(self) -> None:
        self.velocity = 0.5 * self.velocity + self.scale * (self.w - self.target)
        self.w -= 0.1 * self.velocity


def reference(
    rate: float, momentum: float, nesterov: bool, decay: float, chunk: int, k: int, quantise: Any
) -> tuple[Array, list[Array]]:
    """Train as the papers say; return the parameters and each worker's error feedback.

    DiLoCo, Algorithm 1: inner steps, mean of the outer gradients, outer step. SparseLoCo, Algorithm 1: the
    outer gradient enters the decayed error feedback, whose largest k of each chunk are quantised and sent.
    """
    theta, velocity = np.zeros(SIZE), np.zeros(SIZE)
    workers = [Descent(theta.copy(), worker) for worker in range(WORKERS)]
    feedback = [np.zeros(SIZE) for _ in range(WORKERS)]
    for _ in range(ROUNDS):
        sent = []
        for worker, inner in enumerate(workers):
            inner.w[:] = theta
            for _ in range(EVERY):
                inner.step()
            feedback[worker] = decay * feedback[worker] + (theta - inner.w)
            chosen = np.zeros(SIZE)
            for first in range(0, SIZE, chunk):
                part = feedback[worker][first : first + chunk]
                top = np.argsort(-np.abs(part), kind="stable")[:k]
                chosen[first + top] = quantise(part[top])
            feedback[worker] = feedback[worker] - chosen
            sent.append(chosen)
        outer = sum(sent[1:], sent[0]) / WORKERS
        velocity = momentum * velocity + outer
        theta = theta - rate * (outer + momentum * velocity if nesterov else velocity)
    return theta, feedback


DENSE = "all | raw-index | raw"


@pytest.mark.parametrize(
    ("settings", "scheme", "decay", "chunk", "k", "quantise"),
    [
        ({"rate": 0.7, "momentum": 0.9, "nesterov": True}, DENSE, 1.0, SIZE, SIZE, lambda x: x),
        ({"rate": 0.7, "momentum": 0.9}, DENSE, 1.0, SIZE, SIZE, lambda x: x),
        ({}, "chunk-topk(0.25, chunk=8) | rice | raw", 0.95, 8, 2, lambda x: x),
        (
            {"rate": 0.8},
            "chunk-topk(0.25, chunk=8) | rice | raw(float16)",
            0.95,
            8,
            2,
            lambda x: x.astype("f2").astype("f8"),
        ),
    ],
    ids=["DiLoCo", "heavy ball", "SparseLoCo", "SparseLoCo, quantised"],
)
def test_the_papers(
    settings: dict[str, Any], scheme: str, decay: float, chunk: int, k: int, quantise: Any
) -> None:
    def train(comm: Communicator) -> tuple[Array, Array | None]:
        w = np.zeros(SIZE)
        compressor = wc.Compressor(scheme, feedback=wc.ErrorFeedback(decay=decay))
        local = co.LocalUpdates(Descent(w, comm.rank), {"w": w}, compressor, comm, EVERY, **settings)
        exchanged = [local.step() for _ in range(ROUNDS * EVERY)]
        assert exchanged == ([False] * (EVERY - 1) + [True]) * ROUNDS
        return w, compressor.residual("w")

    full = {"rate": 1.0, "momentum": 0.0, "nesterov": False} | settings
    theta, feedback = reference(**full, decay=decay, chunk=chunk, k=k, quantise=quantise)
    for worker, (w, residual) in enumerate(co.simulate(WORKERS, train)):
        np.testing.assert_allclose(w, theta, rtol=1e-12, atol=1e-15)
        if residual is not None:
            np.testing.assert_allclose(residual, feedback[worker], rtol=1e-11, atol=1e-14)
