"""ScaleCom's Figures 2 and 3: memories and selections of the ranks in the first steps of a training.

All ranks are in one process, and all parameters are one vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.papers.networks import build_demo

__all__ = ["BATCH", "SETUPS", "STEPS", "TOP", "Run", "train"]

Array = Any
STEPS, FIRST, EVERY = 90, 2, 5
"""The figures end at iteration 90; first measurement, and the steps between the later ones."""
BATCH = 32
TOP = 0.02
"""Fraction of the elements whose areas Figures 2b and 2d compare."""


@dataclass(frozen=True)
class Setup:
    """Training of a figure.

    Attributes:
        ranks, ratio, rate: their number, the fraction that each sends, and the learning rate.
        beta: of the low-pass filter.
        leads: True for CLT-k, False for top-k of each rank's own.
    """

    ranks: int
    ratio: float
    rate: float
    beta: float = 1.0
    leads: bool = True


SETUPS = {
    **{f"2a, 2b: top-k, {ranks} ranks": Setup(ranks, 0.001, 0.01, leads=False) for ranks in (2, 4, 8)},
    "2c: CLT-k, rate 0.01": Setup(4, 0.001, 0.01),
    "2c: CLT-k, rate 1": Setup(4, 0.001, 1.0),
    "2c, 2d: CLT-k, rate 1, β 0.1": Setup(4, 0.001, 1.0, 0.1),
    **{f"3: CLT-k 400×, rate 0.1, {ranks} ranks": Setup(ranks, 1 / 400, 0.1) for ranks in (2, 4, 8)},
}


@dataclass(frozen=True, eq=False)
class Run:
    """Measurements of one training.

    Attributes:
        name: of the set-up.
        steps: at which was measured.
        distances: cosine distance of the memories of ranks 0 and 1.
        areas: sum of the magnitudes in the top 2 % of both rank 0 and the mean, over that of the mean's.
        hamming: d/k of rank 0 at the ratio of the training.
        top, contraction: γ₀, and the contraction of rank 0's selection.
        loss: of the last step, mean over the ranks.
    """

    name: str
    steps: Array
    distances: Array = field(repr=False)
    areas: Array = field(repr=False)
    hamming: Array = field(repr=False)
    top: Array = field(repr=False)
    contraction: Array = field(repr=False)
    loss: float


def _pick(x: Array, ratio: float) -> Array:
    return wc.selectors.TopK(ratio).select(x).indices


def train(name: str, steps: int) -> Run:
    """Train with error feedback, and measure memories and selections."""
    setup = SETUPS[name]
    networks = [build_demo(BATCH, rank, setup.ranks) for rank in range(setup.ranks)]
    parameters = networks[0].start
    memories = np.zeros((setup.ranks, parameters.size), np.float32)
    rows: list[Any] = []
    losses = [0.0]
    for step in range(steps):
        pairs = [network.compute(parameters, step) for network in networks]
        losses = [loss for loss, _ in pairs]
        totals = memories + np.stack([gradient for _, gradient in pairs])
        sent = np.zeros_like(totals)
        for rank, (total, out) in enumerate(zip(totals, sent, strict=True)):
            leader = totals[step % setup.ranks] if setup.leads else total
            at = _pick(leader, setup.ratio)
            sent[rank, at] = out[at] + total[at]
        if step + 1 == FIRST or (step + 1) % EVERY == 0:
            rows.append((step + 1, *_measure(memories, totals, setup.ratio)))
        memories = (1 - setup.beta) * memories + setup.beta * (totals - sent)
        parameters = parameters - np.float32(setup.rate) * sent.mean(0)
    at, distances, areas, hamming, top, contraction = np.array(rows).T
    loss = float(np.mean(losses))
    return Run(name, at, distances, areas, hamming, top, contraction, loss)


def _measure(memories: Array, totals: Array, ratio: float) -> tuple[float, ...]:
    """Measure the distance, the area, d/k, γ₀ and the contraction."""
    one, two = memories[:2].astype(np.float64)
    distance = 1 - one @ two / max(np.linalg.norm(one) * np.linalg.norm(two), 1e-300)
    mean = totals.mean(0).astype(np.float64)
    size, energy = np.abs(mean), float(mean @ mean)
    local, true = _pick(totals[0], TOP), _pick(mean, TOP)
    area = size[np.intersect1d(local, true)].sum() / size[true].sum()
    own, best = _pick(totals[0], ratio), _pick(mean, ratio)
    kept = [1 - float(mean[at] @ mean[at]) / energy for at in (best, own)]
    hamming = 1 - np.intersect1d(own, best).size / best.size
    return distance, area, hamming, *kept
