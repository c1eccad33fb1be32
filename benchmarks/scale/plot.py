"""Picture of the maps: per model, the winner of each network, and local updates apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.scale.prediction import Cell, Site
from benchmarks.scale.systems import LOCAL, SYSTEMS
from wirecodec.cli.units import format_bandwidth

__all__ = ["draw", "format_factor"]

COLOURS = {
    "dense": "#BBBBBB",
    "fp16": "#F0E442",
    "PowerSGD": "#D55E00",
    "allgather": "#56B4E9",
    "split": "#CC79A7",
    "CLT-k": "#009E73",
    "Ok-Topk": "#0072B2",
}
"""Okabe and Ito's colours, which are distinct for colour-blind readers."""


def draw(
    path: Path,
    maps: Mapping[str, Sequence[Cell]],
    sites: Mapping[str, Sequence[Cell]],
    subtitle: str,
    every: int,
) -> None:
    """Draw three maps per model: the winners, those with sites, and local updates.

    Args:
        path: of the PNG.
        maps: {model: cells}, of the same networks.
        sites: {model: cells} with sites.
        subtitle: settings that all maps share.
        every: steps between two exchanges of local updates.
    """
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(7.5 * len(maps), 3 * 5 + 0.9), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(3, len(maps), squeeze=False)
        for column, (model, cells) in enumerate(maps.items()):
            _draw_winners(axes[0][column], f"{model}: fastest, times as fast as dense", cells)
            title = f"{model}, sites of {Site().ranks} ranks: fastest, times as fast as dense"
            _draw_winners(axes[1][column], title, sites[model])
            _draw_local(axes[2][column], model, cells, every)
        present = {cell.winner for each in (maps, sites) for cells in each.values() for cell in cells}
        handles = [Patch(color=COLOURS[name], label=name) for name in SYSTEMS if name in present]
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), frameon=False)
        figure.suptitle(subtitle, x=0.01, ha="left", fontsize=11)
        figure.savefig(path, format="png")


def format_factor(factor: float) -> str:
    """Format a speed-up with two significant digits or more."""
    return f"{factor:.2f}" if factor < 9.95 else f"{factor:.0f}"


def _axes_of(cells: Sequence[Cell]) -> tuple[list[int], list[float]]:
    """Return the numbers of ranks and the bandwidths, in order."""
    ranks = list(dict.fromkeys(cell.network.ranks for cell in cells))
    return ranks, list(dict.fromkeys(cell.network.bandwidth for cell in cells))


def _draw_winners(axes: Any, title: str, cells: Sequence[Cell]) -> None:
    """Draw the winner as colour, and its speed-up over dense as number."""
    ranks, bandwidths = _axes_of(cells)
    colours = np.array([to_rgb(COLOURS[cell.winner]) for cell in cells])
    axes.imshow(colours.reshape(len(bandwidths), len(ranks), 3), origin="lower", aspect="auto")
    dark = {"PowerSGD", "CLT-k", "Ok-Topk"}
    inks = ["white" if cell.winner in dark else "black" for cell in cells]
    _label(axes, title, cells, [format_factor(cell.speed_up(cell.winner)) for cell in cells], inks)


def _draw_local(axes: Any, model: str, cells: Sequence[Cell], every: int) -> None:
    """Draw the speed-up of local updates over the fastest other system as shade and number."""
    ranks, bandwidths = _axes_of(cells)
    factors = np.array([cell.seconds[cell.winner] / cell.seconds[LOCAL] for cell in cells])
    shades = factors.reshape(len(bandwidths), len(ranks))
    limits = LogNorm(min(0.5, float(factors.min())), max(2 * every, float(factors.max())))
    axes.imshow(shades, origin="lower", aspect="auto", cmap="Blues", norm=limits)
    title = f"local updates every {every}, times as fast as the fastest"
    inks = ["white" if limits(factor) > 0.6 else "black" for factor in factors]
    _label(axes, f"{model}: {title}", cells, [format_factor(factor) for factor in factors], inks)


def _label(axes: Any, title: str, cells: Sequence[Cell], texts: Sequence[str], inks: Sequence[str]) -> None:
    ranks, bandwidths = _axes_of(cells)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xticks(range(len(ranks)), [f"{n:,}" for n in ranks])
    axes.set_yticks(range(len(bandwidths)), [format_bandwidth(b) for b in bandwidths])
    axes.set_xlabel("ranks")
    axes.set_ylabel("bandwidth of a link")
    for number, (text, ink) in enumerate(zip(texts, inks, strict=True)):
        row, column = divmod(number, len(ranks))
        axes.text(column, row, text, ha="center", va="center", color=ink)
