"""Pictures of the maps: per model, the winner of each network, and local updates apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.patches import Patch

from benchmarks.common.palette import GREEN, OTHERS, OURS, PALE, PINK, SKY
from benchmarks.common.pictures import open_picture
from benchmarks.scale.prediction import Cell, Site
from benchmarks.scale.systems import LOCAL, SYSTEMS
from wirecodec.cli.units import format_bandwidth

__all__ = ["draw", "format_factor"]

COLOURS = {
    "dense": PALE,
    "fp16": "#F0E442",
    "PowerSGD": OTHERS,
    "allgather": SKY,
    "split": PINK,
    "CLT-k": GREEN,
    "Ok-Topk": OURS,
}
"""Of areas: dense is paler than in the pictures of lines."""
HEIGHT = 3.6
"""Inches of a map."""


def draw(
    folder: Path, maps: Mapping[str, Sequence[Cell]], sites: Mapping[str, Sequence[Cell]], every: int
) -> None:
    """Draw scale.png, scale_sites.png and scale_local.png: the winners, those with sites, and local updates.

    Args:
        folder: of the PNGs.
        maps: {model: cells}, of the same networks.
        sites: {model: cells} with sites.
        every: steps between two exchanges of local updates.
    """
    title = "Which system is the fastest, and how many times as fast as dense?"
    _draw_maps(folder / "scale.png", title, maps)
    ranks = Site().ranks
    title = f"With sites of {ranks} ranks: which is the fastest, and how many times as fast as dense?"
    _draw_maps(folder / "scale_sites.png", title, sites)
    title = f"Local updates every {every} steps: how many times as fast as the best other system?"
    with open_picture(folder / "scale_local.png", len(maps), title=title, height=HEIGHT) as axes:
        for axis, (model, cells) in zip(axes[:, 0], maps.items(), strict=True):
            _draw_local(axis, model, cells, every)


def _draw_maps(path: Path, title: str, maps: Mapping[str, Sequence[Cell]]) -> None:
    with open_picture(path, len(maps), title=title, height=HEIGHT) as axes:
        for axis, (model, cells) in zip(axes[:, 0], maps.items(), strict=True):
            _draw_winners(axis, model, cells)
        present = {cell.winner for cells in maps.values() for cell in cells}
        handles = [Patch(color=COLOURS[name], label=name) for name in SYSTEMS if name in present]
        axes[0, 0].figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))


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
    inks = ["white" if limits(factor) > 0.6 else "black" for factor in factors]
    _label(axes, model, cells, [format_factor(factor) for factor in factors], inks)


def _label(axes: Any, title: str, cells: Sequence[Cell], texts: Sequence[str], inks: Sequence[str]) -> None:
    ranks, bandwidths = _axes_of(cells)
    axes.set_title(title, loc="left")
    axes.set_xticks(range(len(ranks)), [f"{n:,}" for n in ranks])
    axes.set_yticks(range(len(bandwidths)), [format_bandwidth(b) for b in bandwidths])
    axes.set_xlabel("ranks")
    axes.set_ylabel("bandwidth of a link")
    for number, (text, ink) in enumerate(zip(texts, inks, strict=True)):
        row, column = divmod(number, len(ranks))
        axes.text(column, row, text, ha="center", va="center", color=ink)
