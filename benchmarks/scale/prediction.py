"""Predictions: the cost of each system on a network, from the rates of a machine, and maps of them.

With sites, ranks sum densely within their site, and each exchanges its part of the gradient with the ranks of
other sites that have the same part, as ``collectives.Sites`` does. They share the site's link, so the parts
together take as long as the whole gradient of one rank. PowerSGD sums the factors of whole matrices first
within sites and then between them.
"""

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
    share_buckets,
)
from collectives.advise.measurement import Gradient

__all__ = ["BANDWIDTHS", "RANKS", "Cell", "Site", "compute_cost", "compute_site_seconds", "predict_cells"]

RANKS = tuple(2**power for power in range(2, 11))
BANDWIDTHS = (1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10, 1e11)
"""Bits per second."""


@dataclass(frozen=True)
class Site:
    """Ranks on one fast network; a cell's network is between sites.

    Attributes:
        ranks: of each site.
        bandwidth: bytes per second of each rank within the site.
        latency: seconds per message within it.
    """

    ranks: int = 8
    bandwidth: float = 12.5e9
    latency: float = 5e-6


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
    costs = compute_costs(stages, gradient, ranks)
    return next((c for c in costs if c.algorithm == name.lower()), costs[0])  # a small split gathers


def compute_site_seconds(name: str, rates: Rates, network: Network, site: Site) -> float:
    """Compute the seconds of an exchange per step over sites.

    Args:
        name: of the system.
        rates: of the model.
        network: of all ranks, with the link of a site.
        site: of the ranks.
    """
    across = replace(network, ranks=network.ranks // site.ranks)
    within = Network(site.ranks, site.bandwidth, site.latency)
    cost, gradient = compute_cost(name, rates, across), rates.gradient
    if name == "PowerSGD":
        sums = compute_dense_cost(gradient.scaled(rates.factors.nbytes / gradient.nbytes), site.ranks)
        return cost.seconds(across) + sums.seconds(within)
    every = rates.local.every if name == LOCAL else 1
    half = 0.5 if name == "fp16" else 1.0
    sums = compute_dense_cost(gradient.scaled(half), site.ranks)
    part = replace(cost, computing=cost.computing / site.ranks, alone=cost.alone / site.ranks)
    return part.seconds(across) + sums.seconds(within) / every


def predict_cells(
    rates: Rates,
    *,
    site: Site | None = None,
    ranks: Sequence[int] = RANKS,
    bandwidths: Sequence[float] = BANDWIDTHS,
    latency: float = 50e-6,
    step: Step = EXCHANGE_ALONE,
) -> list[Cell]:
    """Predict all systems for each number of ranks and each bandwidth.

    Args:
        rates: of the model on this machine.
        site: of the ranks; numbers of ranks with less than two sites are left out. None for no sites.
        ranks: numbers of ranks.
        bandwidths: bits per second.
        latency: seconds per message.
        step: what a step takes beyond its exchange.
    """
    step = replace(step, pieces=share_buckets([rates.gradient.nbytes]))
    cells = []
    for bandwidth in bandwidths:
        for n in ranks:
            if site is not None and n < 2 * site.ranks:
                continue
            network, seconds = Network(n, bandwidth / 8, latency), {}
            for name in SYSTEMS:
                if site is None:
                    exchange = compute_cost(name, rates, network).seconds(network)
                else:
                    exchange = compute_site_seconds(name, rates, network, site)
                seconds[name] = step.seconds(exchange, local=name == LOCAL)
            cells.append(Cell(network, seconds))
    return cells
