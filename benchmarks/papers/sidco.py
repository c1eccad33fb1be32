"""SIDCo's figures: quality of the count over trainings, fits of gradients, and compressibility."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import DENSITIES
from benchmarks.papers.networks import NETWORKS, build_resnet20
from benchmarks.papers.parts import Part
from benchmarks.papers.training import run_training
from wirecodec.cli.gradient_stats import GradientStats, compute_stats
from wirecodec.cli.sidco_stats import SIDCoStats, compute_sidco_stats

__all__ = ["Count", "Fitted", "build_selectors", "list_parts", "name_count"]

Array = Any
EARLY = 100
"""The paper's first iteration of Figures 2 and 8."""
FIT_IMAGES = 32
"""Images per step of the training whose gradients are fitted."""
FIT_DENSITY = 0.001


@dataclass(frozen=True, eq=False)
class Count:
    """Counts of one selector over a training that it takes part in.

    Attributes:
        network: its name.
        name: of the selector.
        density: k/d.
        ratios: (steps,) k̂/k.
        loss: mean training loss of the last tenth.
    """

    network: str
    name: str
    density: float
    ratios: Array = field(repr=False)
    loss: float

    @property
    def interval(self) -> tuple[float, float]:
        """The central 90 % of k̂/k over the steps."""
        low, high = np.quantile(self.ratios, (0.05, 0.95))
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Statistics of one gradient of a training with top-k at 0.001.

    Attributes:
        feedback: whether the training has error feedback.
        step: number of the step.
        stats: decay, and errors over k.
        sidco: the fits.
    """

    feedback: bool
    step: int
    stats: GradientStats
    sidco: SIDCoStats


def build_selectors(density: float) -> dict[str, wc.Selector]:
    """Build the selectors of Figures 1c, 3c and 9, and this library's two."""
    return {
        "DGC": wc.selectors.DGC(density),
        "RedSync": wc.selectors.RedSync(density),
        "GaussianKSGD": wc.selectors.GaussianK(density),
        "SIDCo-E": wc.selectors.SIDCo(density, "exponential", mode="faithful"),
        "SIDCo-GP": wc.selectors.SIDCo(density, "gamma-gp", mode="faithful"),
        "SIDCo-P": wc.selectors.SIDCo(density, "gp", mode="faithful"),
        "adaptive": wc.selectors.SIDCo(density, mode="adaptive"),
        "retargeted": wc.selectors.SIDCo(density),
    }


def list_parts(steps: int) -> list[Part]:
    """List a training of every network with every selector at every density, and those that are fitted.

    Args:
        steps: of each training.
    """
    fits = [Part(_name_fits(feedback), measure_fits, (feedback, steps)) for feedback in (False, True)]
    counts = [
        Part(name_count(network, density, name), measure_count, (network, name, density, steps))
        for network in reversed(NETWORKS)  # the slow ones are not last
        for density in DENSITIES
        for name in build_selectors(density)
    ]
    return fits + counts


def name_count(network: str, density: float, selector: str) -> str:
    """Return the name of the part that trains with a selector."""
    return f"SIDCo: {network}, {selector} at {density:g}"


def _name_fits(feedback: bool) -> str:
    return f"SIDCo: fits {'with' if feedback else 'without'} feedback"


def measure_count(network: str, name: str, density: float, steps: int) -> Count:
    """Train a network with a selector."""
    kind, ratios, losses = NETWORKS[network], [], []
    with np.errstate(all="ignore"):
        for each in run_training(kind.build(), build_selectors(density)[name], steps, rate=kind.rate):
            ratios.append(each.count / wc.selectors.TopK(density).count(each.x.size))
            losses.append(each.loss)
    loss = float(np.mean(losses[-max(1, steps // 10) :]))
    return Count(network, name, density, np.array(ratios), loss)


def measure_fits(feedback: bool, steps: int) -> list[Fitted]:
    """Train ResNet-20 with top-k at 0.001, and fit residual + gradient of two steps."""
    stops = (min(EARLY, steps // 2), steps)
    training = run_training(
        build_resnet20(FIT_IMAGES),
        wc.selectors.TopK(FIT_DENSITY),
        steps,
        rate=NETWORKS["ResNet-20"].rate,
        feedback=feedback,
    )
    fits = []
    for number, each in enumerate(training, start=1):
        if number in stops:
            stats = compute_stats(each.x)
            fits.append(Fitted(feedback, number, stats, compute_sidco_stats(each.x, stats.ranks)))
    return fits
