"""ScaleCom's figures: build-up, similarity of the ranks, overlap of selections, and the performance model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import collectives as co
from benchmarks.papers import balanced, comparators
from benchmarks.papers.networks import build_demo
from benchmarks.papers.parts import Part

__all__ = [
    "BATCH",
    "EFFICIENCY",
    "METHODS",
    "MINIBATCHES",
    "RATIO",
    "RUNS",
    "TERAFLOPS",
    "WORKERS",
    "Result",
    "Run",
    "collect",
    "compute_shares",
    "list_parts",
]

Array = Any
RATIO = 0.01
BATCH = 32
RUNS = {
    "2 ranks": (2, 0.01, 1.0),
    "4 ranks": (4, 0.01, 1.0),
    "8 ranks": (8, 0.01, 1.0),
    "4 ranks, rate 0.2": (4, 0.2, 1.0),
    "4 ranks, rate 0.2, β 0.1": (4, 0.2, 0.1),
}
"""(ranks, learning rate, β) of Figures 2 and 3."""
RANKS = (2, 4, 8, 16)
"""Of Figure 1a."""
EVERY = 5
"""Steps between two measurements."""

METHODS = ("dense", "top-k", "ScaleCom")
WORKERS = (8, 16, 32, 64, 128)
MINIBATCHES = (8, 32)
TERAFLOPS = (100, 300)
PARAMETERS, FLOPS = 25.6e6, 3 * 2 * 4.1e9
"""ResNet-50: parameters, and operations of one image forward and backward."""
EFFICIENCY = 0.5
"""Fraction of the peak at which the model computes; the paper does not state its own."""
BANDWIDTH = 32e9
"""Bytes per second of the server and of a worker."""


@dataclass(frozen=True, eq=False)
class Run:
    """Similarity over a training.

    Attributes:
        name: of the run.
        steps: at which it was measured.
        distances: cosine distance of the residuals.
        hamming: d/k of the next leader.
        contraction, top, bound: of the next leader, of the true top k, and equation 7.
        last: the last measurement, with its histogram.
        loss: of the last step, mean over ranks.
    """

    name: str
    steps: Array
    distances: Array = field(repr=False)
    hamming: Array = field(repr=False)
    contraction: Array = field(repr=False)
    top: Array = field(repr=False)
    bound: Array = field(repr=False)
    last: co.Similarity = field(repr=False)
    loss: float


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        runs: Figures 2 and 3.
        steps: of each training.
        comparisons: Table 1.
        splits: Ok-Topk's balanced split.
        sent: per number of ranks, bytes a rank sends by all-gather and by CLT-k.
    """

    runs: list[Run]
    steps: int
    comparisons: list[comparators.Comparison]
    splits: list[balanced.Point]
    sent: list[tuple[int, int, int]]


def list_parts(steps: int) -> list[Part]:
    """List trainings on simulated ranks, and counts of bytes.

    Args:
        steps: of each training.
    """
    runs = [Part(_name(name), train, (name, steps)) for name in RUNS]
    sent = [Part(_name_bytes(ranks), count_bytes, (ranks,)) for ranks in RANKS]
    return [*runs, *sent, *comparators.list_parts(steps), *balanced.list_parts(steps)]


def collect(found: Mapping[str, Any], steps: int) -> Result:
    """Collect the results of all parts."""
    return Result(
        [found[_name(name)] for name in RUNS],
        steps,
        comparators.collect(found),
        balanced.collect(found),
        [(ranks, *found[_name_bytes(ranks)]) for ranks in RANKS],
    )


def _name(run: str) -> str:
    return f"ScaleCom: {run}"


def _name_bytes(ranks: int) -> str:
    return f"ScaleCom: bytes of {ranks} ranks"


def train(name: str, steps: int) -> Run:
    """Train with CLT-k; all parameters are one tensor."""
    ranks, rate, beta = RUNS[name]

    def run(comm: Any) -> tuple[list[tuple[int, co.Similarity]], float]:
        network = build_demo(BATCH, comm.rank, ranks)
        parameters, cltk, found, loss = network.start, co.CLTk(RATIO, beta), [], 0.0
        for step in range(steps):
            loss, gradient = network.compute(parameters, step)
            if step % EVERY == EVERY - 1:
                measured = co.similarity(comm, cltk, gradient)
                assert isinstance(measured, co.Similarity)
                found.append((step + 1, measured))
            parameters = parameters - np.float32(rate) * cltk.allreduce(comm, gradient)
        return found, loss

    with np.errstate(all="ignore"):
        results = co.simulate(ranks, run)
    found = results[0][0]
    leaders = [(step - 1) % ranks for step, _ in found]
    each = [(s, leader) for (_, s), leader in zip(found, leaders, strict=True)]
    return Run(
        name,
        np.array([step for step, _ in found]),
        np.array([s.cosine_distance for s, _ in each]),
        np.array([s.hamming[leader] for s, leader in each]),
        np.array([s.contraction[leader] for s, leader in each]),
        np.array([s.top_contraction for s, _ in each]),
        np.array([s.bounds[leader] for s, leader in each]),
        found[-1][1],
        float(np.mean([loss for _, loss in results])),
    )


def count_bytes(ranks: int, d: int = 2_000_000) -> tuple[int, int]:
    """Count the bytes that a rank sends for one gradient of Laplace elements: all-gather, CLT-k."""

    def run(comm: Any) -> tuple[int, int]:
        x = np.random.default_rng(comm.rank).laplace(size=d).astype(np.float32)
        channel = co.Channel(comm)
        co.allreduce(channel, x, f"topk({RATIO}) | rice | raw", algorithm="allgather")
        before = channel.bytes_sent
        co.CLTk(RATIO).allreduce(channel, x)
        return before, channel.bytes_sent - before

    sent = co.simulate(ranks, run)
    return max(a for a, _ in sent), max(b for _, b in sent)


def compute_shares(workers: int, minibatch: int, teraflops: float, method: str) -> tuple[float, float]:
    """Compute the seconds of computing and of communication of a step by the paper's model.

    A parameter server has the bandwidth of one worker's link. It receives each worker's gradient and sends
    the sum. Links work at once, so a gradient takes its bytes over the bandwidth, in either direction. The
    sum of top-k gradients has as many elements as all of them, at most all; CLT-k's has k.

    Args:
        workers: number of workers.
        minibatch: images per worker.
        teraflops: peak of a worker.
        method: "dense", "top-k" or "ScaleCom".
    """
    computing = minibatch * FLOPS / (teraflops * 1e12 * EFFICIENCY)
    nbytes = 4 * PARAMETERS
    up = down = nbytes
    if method != "dense":
        up = down = nbytes / 112
        if method == "top-k":
            down = min(workers * up, 2 * nbytes)
        else:
            up += nbytes / 112 / 2  # the leader's indices
    return computing, (up + down) / BANDWIDTH
