"""Pictures of the page; those of each paper's own figures have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.palette import BLUE, DARK, GREY
from benchmarks.common.pictures import open_picture
from benchmarks.papers import sidco
from benchmarks.papers.networks import NETWORKS
from benchmarks.papers.pages import deepreduce_plot, fft_plot, scalecom_plot
from benchmarks.papers.pages.curves import list_curves
from benchmarks.papers.pages.curves_plot import draw_curves
from benchmarks.papers.plan import Results

__all__ = ["QualityPanel", "draw_all", "draw_quality"]

QualityPanel = tuple[str, float, Sequence[tuple[str, float, float, float]]]
QUALITY_RANGE = (0.01, 4.0)
"""Of k̂/k; what is beyond it is drawn at its end."""


def draw_all(folder: Path, results: Results) -> None:
    """Draw every picture into a folder."""
    mpl.use("Agg")
    _draw_quality(folder / "papers_sidco_quality.png", results.sidco)
    deepreduce_plot.draw(folder, results.deepreduce)
    fft_plot.draw(folder, results.fft)
    scalecom_plot.draw(folder, results.scalecom)
    draw_curves(folder, list_curves(results.sidco, results.adacomp))


def _list_panels(found: sidco.Result) -> list[tuple[str, float, list[sidco.Count]]]:
    """List (network, density, its counts), by network."""
    return [
        (network, density, [c for c in found.counts if (c.network, c.density) == (network, density)])
        for network in NETWORKS
        for density in DENSITIES
    ]


def _draw_quality(path: Path, found: sidco.Result) -> None:
    panels = [
        (network, density, [_summarize(count) for count in counts])
        for network, density, counts in _list_panels(found)
    ]
    draw_quality(path, panels)


def _summarize(count: sidco.Count) -> tuple[str, float, float, float]:
    """Return the name, the mean of k̂/k, and the ends of its 90 % interval."""
    low, high = count.interval
    return count.name, float(count.ratios.mean()), float(low), float(high)


def draw_quality(path: Path, panels: Sequence[QualityPanel]) -> None:
    """Draw the quality of the count: the mean of k̂/k as a dot, with its 90 % interval.

    Args:
        path: of the PNG.
        panels: (network, density, (selector, mean, and the interval's ends)), by network.
    """
    columns = len({density for _, density, _ in panels})
    title = "How close to k is the number of selected elements? Mean and 90 % of a training's steps"
    layout: dict[str, Any] = {"sharex": True, "sharey": True}
    with open_picture(path, len(panels) // columns, columns, title=title, height=2.2, **layout) as axes:
        for axis, (network, density, counts) in zip(axes.flat, panels, strict=True):
            for place, (_, *numbers) in enumerate(counts):
                mean, low, high = np.clip(numbers, *QUALITY_RANGE)
                axis.plot([low, high], [place, place], color=GREY, lw=2)
                axis.plot([mean], [place], "o", color=BLUE, ms=5)
            axis.axvline(1, color=DARK, lw=0.8)
            axis.set_title(f"{network}, density {density:g}", loc="left")
            axis.set_yticks(range(len(counts)), [name for name, *_ in counts])
            axis.set(xscale="log", xlim=QUALITY_RANGE, ylim=(len(counts) - 0.4, -0.6))
        for axis in axes[-1]:
            axis.set_xlabel("selected / k")
            axis.set_xticks([0.1, 1], ["0.1", "1"])
