"""Picture of training over shaped links: loss over seconds, one panel per link."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.training.links.report import SLACK, compute_final_loss, find_seconds

__all__ = ["draw", "smooth"]

WINDOW = 1 / 30
"""Fraction of a run over which losses are averaged, as for the seconds in the table."""


def draw(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Draw the mean loss of the last steps over seconds.

    Args:
        path: of the PNG.
        records: of ``benchmarks.training.links.rank``.
    """
    links = list(dict.fromkeys(record["link"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(8 * len(links), 5.6), dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(links), squeeze=False)[0]
        for axes, link in zip(panels, links, strict=True):
            _draw_link(axes, link, [record for record in records if record["link"] == link], methods)
        figure.savefig(path, format="png")


def smooth(losses: Sequence[float]) -> Any:
    """Compute the mean of the last losses at each step; the first ones have fewer."""
    window = max(1, round(WINDOW * len(losses)))
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    ends = np.arange(1, len(losses) + 1)
    starts = np.maximum(0, ends - window)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _draw_link(axes: Any, link: str, records: Sequence[dict[str, Any]], methods: Sequence[str]) -> None:
    dense = next((record for record in records if record["method"] == "dense"), None)
    goal = SLACK * compute_final_loss(dense) if dense else None
    for record in records:
        colour = f"C{methods.index(record['method'])}"
        axes.plot(record["seconds"], smooth(record["losses"]), color=colour, label=record["method"])
        reached = None if goal is None else find_seconds(record, goal)
        if reached is not None:
            axes.plot([reached], [goal], "o", color=colour)
    if goal is not None:
        axes.axhline(goal, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("seconds since the first step")
    axes.set_ylabel("training loss, mean of the last 1/30 of the steps")
    axes.set_title(f"{link}/s; dots: dense's final loss + 2 %", loc="left", fontsize=11)
    axes.legend(frameon=False)
