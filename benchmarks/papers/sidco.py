"""SIDCo's figures: quality of the count over a training, fits of gradients, and compressibility."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import DENSITIES
from benchmarks.common.results import format_markdown
from benchmarks.papers.table import Row, format_rows
from benchmarks.papers.training import run_training
from wirecodec.cli.gradient_stats import GradientStats, compute_stats
from wirecodec.cli.sidco_stats import SIDCoStats, compute_sidco_stats

__all__ = ["Count", "Fitted", "Result", "build_selectors", "format_section", "measure"]

Array = Any
EARLY = 100
"""The paper's first iteration of Figures 2 and 8."""


@dataclass(frozen=True, eq=False)
class Count:
    """Counts of one selector over a training that it takes part in.

    Attributes:
        name: of the selector.
        density: k/d.
        ratios: (steps,) k̂/k.
        loss: mean training loss of the last tenth.
    """

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


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        steps: of each training.
        counts: of each selector and density.
        fits: early and late, without and with feedback.
    """

    steps: int
    counts: list[Count]
    fits: list[Fitted]


def build_selectors(density: float) -> dict[str, wc.Selector]:
    """Build the selectors of Figures 1c, 3c and 9, and this library's two."""
    return {
        "DGC": wc.DGC(density),
        "RedSync": wc.RedSync(density),
        "GaussianKSGD": wc.GaussianK(density),
        "SIDCo-E": wc.SIDCo(density, "exponential", mode="faithful"),
        "SIDCo-GP": wc.SIDCo(density, "gamma-gp", mode="faithful"),
        "SIDCo-P": wc.SIDCo(density, "gp", mode="faithful"),
        "adaptive": wc.SIDCo(density, mode="adaptive"),
        "retargeted": wc.SIDCo(density),
    }


def measure(steps: int, step: Callable[[str], None]) -> Result:
    """Train with every selector at every density.

    Args:
        steps: of each training.
        step: called with the name of each measurement before it starts.
    """
    counts = []
    for density in DENSITIES:
        for name, selector in build_selectors(density).items():
            step(f"SIDCo: {name} at {density:g}")
            counts.append(_count(name, density, selector, steps))
    fits = []
    for feedback in (False, True):
        step(f"SIDCo: fits {'with' if feedback else 'without'} feedback")
        stops = (min(EARLY, steps // 2), steps)
        for number, each in enumerate(run_training(wc.TopK(0.001), steps, feedback=feedback), start=1):
            if number in stops:
                stats = compute_stats(each.x)
                fits.append(Fitted(feedback, number, stats, compute_sidco_stats(each.x, stats.ranks)))
    return Result(steps, counts, fits)


def _count(name: str, density: float, selector: wc.Selector, steps: int) -> Count:
    ratios, losses = [], []
    with np.errstate(all="ignore"):
        for each in run_training(selector, steps):
            ratios.append(each.count / wc.TopK(density).count(each.x.size))
            losses.append(each.loss)
    return Count(name, density, np.array(ratios), float(np.mean(losses[-max(1, steps // 10) :])))


def format_section(found: Result) -> str:
    """Format SIDCo's part of the page."""
    header = ["selector", *(f"{d:g}: mean, 90 % interval, loss" for d in DENSITIES)]
    rows = []
    for name in dict.fromkeys(count.name for count in found.counts):
        cells = []
        for count in (c for c in found.counts if c.name == name):
            low, high = count.interval
            cells.append(f"{count.ratios.mean():.2f}, {low:.2f}-{high:.2f}, {count.loss:.2g}")
        rows.append([name, *cells])
    fits = [
        [
            f"{'with' if fit.feedback else 'without'} feedback, step {fit.step}",
            *(f"{quality.distance:.3f}" for quality in fit.sidco.quality),
            f"{fit.stats.decay:.2f}",
            f"{fit.stats.magnitude_factor:.3g}, {fit.stats.error_factor:.3g}",
        ]
        for fit in found.fits
    ]
    names = [quality.name for quality in found.fits[0].sidco.quality]
    return f"""## SIDCo (Abdelmoniem et al., 2021)

{format_rows(_list_rows(found))}
### Figures 1c, 3c, 3f, 5b, 6c, 9 and 18: quality of the count

k̂/k, elements selected over elements asked for, over {found.steps:,} steps of real training. Each selector
trains its own network, with error feedback. The interval holds the central 90 % of the steps. The loss is the
mean of the last tenth of the steps. *adaptive* and *retargeted* are this library's modes.

{format_markdown(header, rows)}
![k̂/k over the steps, smoothed](papers_sidco.png)

### Figures 2, 7 and 8: fits and compressibility

Kolmogorov-Smirnov distance of each fit from the gradient of a training with top-k at 0.001; exponent p and
constants c1, c2 of Definition 1. `wirecodec stats --sidco --png` draws all of this for any gradient.

{format_markdown(["gradient", *(f"KS, {name}" for name in names), "p", "c1, c2"], fits)}
![densities, distribution functions and errors](papers_sidco_fits.png)
"""


def _list_rows(found: Result) -> list[Row]:
    by_name: dict[str, list[Count]] = {}
    for count in found.counts:
        by_name.setdefault(count.name, []).append(count)

    def span(*names: str) -> str:
        means = [count.ratios.mean() for name in names for count in by_name[name]]
        return f"{min(means):.2f}-{max(means):.2f}"

    decays = [fit.stats.decay for fit in found.fits]
    return [
        Row(
            "Figure 1a, 1b, 14-17: speed-up over top-k, latency",
            "SIDCo faster than top-k on both; DGC fast on GPU only",
            "[select.md](select.md)",
            "CPU: our exact top-k is itself faster than SIDCo in most cells. GPU: not measured.",
        ),
        Row(
            "Figure 1c, 3c, 3f, 5b, 6c, 9, 18: quality of SIDCo",
            "mean k̂/k about 1, within 20 %",
            f"means {span('SIDCo-E', 'SIDCo-GP', 'SIDCo-P')}; adaptive {span('adaptive')}; "
            f"retargeted {span('retargeted')}",
            "The paper's controller changes the number of stages alone. If no number suits, as "
            "for SIDCo-E at 0.01, the count stays wrong.",
        ),
        Row(
            "the same: RedSync, GaussianKSGD, DGC",
            "RedSync and GaussianKSGD miss the threshold; DGC is near k",
            f"{span('RedSync')}, {span('GaussianKSGD')}, {span('DGC')}",
            "Theirs have other constants; DGC here never sends more than k.",
        ),
        Row(
            "Figures 2, 8: three fits of ResNet-20's gradients",
            "all three fit without feedback, the tail worse with it",
            "table below",
            "Another network. The distance measures the whole distribution, not the tail.",
        ),
        Row(
            "Figure 7: power law of the sorted magnitudes",
            "p above 0.7",
            f"p {min(decays):.2f}-{max(decays):.2f}",
            "Another network; residuals flatten the curve. Definition 1 requires p > 0.5.",
        ),
        Row(
            "Table 1, Figures 3-6, 10-13, 18: training",
            "speed-up, throughput, accuracy",
            "–",
            "Training on their models is not part of this page.",
        ),
    ]
