"""ScaleCom's figures: build-up, similarity of the ranks, overlap of selections, and the performance model."""

from __future__ import annotations

from typing import Any

import numpy as np

import collectives as co
from benchmarks.papers import memories
from benchmarks.papers.parts import Part

__all__ = ["METHODS", "MINIBATCHES", "TERAFLOPS", "WORKERS", "compute_shares", "list_parts", "name_run"]

Array = Any
RATIO = 0.01
RANKS = (2, 4, 8, 16)
"""Of Figure 1a."""
METHODS = ("dense", "top-k", "ScaleCom")
WORKERS = (8, 16, 32, 64, 128)
MINIBATCHES = (8, 32)
TERAFLOPS = (100, 300)
PARAMETERS, FLOPS = 25.6e6, 3 * 2 * 4.1e9
"""ResNet-50: parameters, and operations of one image forward and backward."""
EFFICIENCY = 0.32
"""Fraction of the peak at which the model computes. The paper states none; this comes near its numbers."""
BANDWIDTH = 32e9
"""Bytes per second of the server and of a worker."""


def list_parts(steps: int) -> list[Part]:
    """List trainings on simulated ranks, and counts of bytes.

    Args:
        steps: of each training.
    """
    first = min(steps, memories.STEPS)
    runs = [Part(name_run(name), memories.train, (name, first)) for name in memories.SETUPS]
    sent = [Part(f"ScaleCom: bytes of {ranks} ranks", count_bytes, (ranks,)) for ranks in RANKS]
    return [*runs, *sent]


def name_run(run: str) -> str:
    """Return the name of the part that trains a set-up."""
    return f"ScaleCom: {run}"


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
    """Compute the seconds of computing and of communication of a step, by a formula in place of the paper's.

    A parameter server has the bandwidth of one worker's link. It receives each worker's gradient and sends
    the sum. Links work at once, so a gradient takes its bytes over the bandwidth, in either direction. The
    sum of top-k gradients has as many elements as all of them, at most all; CLT-k's has k. The leader's
    indices take as many bytes as its values, as in section 5.

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
            up += nbytes / 112  # the leader's indices
    return computing, (up + down) / BANDWIDTH
