"""Predictions: the cost of each system on a network, from the rates of a machine, and maps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.scale.rates import Rates
from benchmarks.scale.systems import LOCAL, SYSTEMS
from collectives.advise.cost_model import (
    EXCHANGE_ALONE,
    ExchangeCost,
    Network,
    Step,
    compute_costs,
    compute_dense_cost,
    find_fastest,
)
from collectives.advise.measurement import Gradient

__all__ = ["BANDWIDTHS", "RANKS", "Cell", "compute_cost", "predict_cells"]

RANKS = tuple(2**power for power in range(2, 11))
BANDWIDTHS = (1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11)
"""Bits per second."""


@dataclass(frozen=True)
class Cell:
    """Predictions for one network.

    Attributes:
        network: ranks, bandwidth and latency.
        seconds: {system: seconds of a step}.
    """

    network: Network
    seconds: dict[str, float]

    @property
    def winner(self) -> str:
        """Return the fastest system; local updates are left out, because they change the training."""
        return min((name for name in self.seconds if name != LOCAL), key=lambda name: self.seconds[name])

    def speed_up(self, name: str) -> float:
        """Return how many times as fast as dense a system is."""
        return self.seconds["dense"] / self.seconds[name]


def compute_cost(name: str, rates: Rates, network: Network) -> ExchangeCost:
    """Compute the cost of a system's exchange per step; local updates use the fastest algorithm."""
    gradient, ranks = rates.gradient, network.ranks
    if name == "dense":
        return compute_dense_cost(gradient, ranks)
    if name == "fp16":
        half = rates.half
        dense = compute_dense_cost(Gradient(gradient.nbytes // 2, half.add, half.finish), ranks)
        return replace(dense, algorithm=name, computing=dense.computing + half.cast)
    if name == "PowerSGD":
        return compute_costs(rates.factors, gradient, ranks)[0]
    if name == LOCAL:
        return find_fastest(compute_costs(rates.local, gradient, ranks), network)
    stages = {"CLT-k": rates.leader, "Ok-Topk": rates.owned}.get(name, rates.stages)
    return next(c for c in compute_costs(stages, gradient, ranks) if c.algorithm == name.lower())


def predict_cells(
    rates: Rates,
    *,
    ranks: Sequence[int] = RANKS,
    bandwidths: Sequence[float] = BANDWIDTHS,
    latency: float = 50e-6,
    step: Step = EXCHANGE_ALONE,
) -> list[Cell]:
    """Predict all systems for each number of ranks and each bandwidth.

    Args:
        rates: of the model on this machine.
        ranks: numbers of ranks.
        bandwidths: bits per second.
        latency: seconds per message.
        step: what a step takes beyond its exchange.
    """
    cells = []
    for bandwidth in bandwidths:
        for n in ranks:
            network = Network(n, bandwidth / 8, latency)
            seconds = {
                name: step.seconds(compute_cost(name, rates, network).seconds(network), local=name == LOCAL)
                for name in SYSTEMS
            }
            cells.append(Cell(network, seconds))
    return cells
