"""DeepReduce's Table 2: training of embeddings, whose gradients are sparse without a selector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import wirecodec as wc
from benchmarks.papers.networks import NETWORKS, build_embedding
from benchmarks.papers.parts import Part
from benchmarks.papers.reproductions import TABLE_2

__all__ = ["Run", "list_parts"]

PAIRS = {128: 1.0, 5000: 0.3}
"""{pairs per step: part of the steps}; the larger batch leaves about as many zeros as the paper's NCF."""


@dataclass(frozen=True)
class Run:
    """Training with one method.

    Attributes:
        pairs: per step.
        method: its name.
        scheme: ours for it.
        theirs: the paper's volume, or "".
        zeros: mean fraction of a gradient that is zero.
        volume: bytes relative to the dense gradient, mean over the steps.
        hits: hit rate at 10 of 100 candidates, in percent.
    """

    pairs: int
    method: str
    scheme: str
    theirs: str
    zeros: float
    volume: float
    hits: float


def list_parts(steps: int) -> list[Part]:
    """List a training with each method and batch; ``steps``: with the small batch."""
    return [
        Part(
            f"DeepReduce: Table 2, {method}, {pairs} pairs",
            measure,
            (pairs, method, max(1, int(steps * part))),
        )
        for pairs, part in PAIRS.items()
        for method in TABLE_2
    ]


def measure(pairs: int, method: str, steps: int) -> Run:
    """Train one worker with a method, without feedback: a residual would fill the zeros."""
    scheme, theirs = TABLE_2[method]
    network, rate = build_embedding(pairs), np.float32(NETWORKS["embedding"].rate)
    parameters = network.start
    zeros, nbytes = 0.0, 0
    for step in range(steps):
        _, gradient = network.compute(parameters, step)
        zeros += float(np.mean(gradient == 0)) / steps
        blob = wc.encode(gradient, scheme, seed=step)
        nbytes += blob.nbytes
        decoded = np.zeros_like(gradient)
        wc.decode_add(blob, decoded)
        parameters = parameters - rate * decoded
    volume = nbytes / (steps * parameters.nbytes)
    return Run(pairs, method, scheme, theirs, zeros, volume, network.evaluate(parameters))
