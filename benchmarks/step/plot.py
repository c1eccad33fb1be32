"""Picture of whole steps: time by system, one panel per model and link, with the floors."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.step.rows import LINKS, Row
from benchmarks.step.systems import COMPUTING, NATIVE, SYSTEMS

__all__ = ["draw"]

OWN, NATIVES, ALONE, FLOOR = "#1f4e9c", "#c2571a", "#9a9a9a", "black"
RANKS = 2
TITLE = (
    f"Training steps on {RANKS} ranks. Grey: computing alone; black: floor; thin line: lowest to highest"
    " round. In parentheses: ratio to the floor, both above computing."
)


def draw(path: Path, rows: Sequence[Row], machine: str) -> None:
    """Draw one row of panels per link, and one column per model; two ranks.

    Args:
        path: path of the PNG.
        rows: of all jobs.
        machine: name of the machine.
    """
    chosen = [row for row in rows if row.ranks == RANKS]
    models = list(dict.fromkeys(row.model for row in chosen))
    links = [link for link in LINKS if any(row.link == link for row in chosen)]
    if not chosen:
        return
    height = sum(_count_systems(chosen, link) for link in links)
    figure = Figure(
        figsize=(3.0 + 4.4 * len(models), 1.4 + 0.3 * height + 0.5 * len(links)),
        dpi=100,
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(links),
        len(models),
        squeeze=False,
        sharey="row",
        height_ratios=[_count_systems(chosen, link) + 1.2 for link in links],
    )
    for link, across in zip(links, panels, strict=True):
        there = [row for row in chosen if row.link == link]
        scale = "log" if any(_spans_decades(there, model) for model in models) else "linear"
        for model, axes in zip(models, across, strict=True):
            found = [row for row in there if row.model == model]
            if not found:
                axes.set_visible(False)
                continue
            _draw_panel(axes, found, scale)
            text = f"{model}, {link}{' (logarithmic)' if scale == 'log' else ''}"
            axes.set_title(text, loc="left", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("milliseconds per step")
    figure.suptitle(textwrap.fill(TITLE, 30 + 55 * len(models)), fontsize=10)
    figure.supxlabel(machine, fontsize=7, color="grey")
    figure.savefig(path, format="png")


def _count_systems(rows: Sequence[Row], link: str) -> int:
    return len({row.system for row in rows if row.link == link})


def _spans_decades(rows: Sequence[Row], model: str) -> bool:
    """Return whether a model's bars have lengths for which a linear scale hides the short ones."""
    times = [row.seconds for row in rows if row.model == model]
    return bool(times) and max(times) > 15 * min(times)


def _draw_panel(axes: Any, rows: Sequence[Row], scale: str) -> None:
    """Draw a bar per system: computing in grey, what is above it in the colour of its kind."""
    found = {row.system: row for row in rows}
    names = [name for name in SYSTEMS if name in found]
    longest = max(1e3 * max(row.times) for row in rows)
    for place, name in enumerate(names):
        row = found[name]
        milliseconds, computing = 1e3 * row.seconds, 1e3 * row.computing
        axes.barh(place, min(computing, milliseconds), 0.7, color=ALONE)
        if name != COMPUTING:
            colour = NATIVES if name in NATIVE else OWN
            axes.barh(place, max(0.0, milliseconds - computing), 0.7, left=computing, color=colour)
        axes.hlines(place, 1e3 * min(row.times), 1e3 * max(row.times), color="0.25", lw=1)
        if row.floor is not None:
            axes.vlines(1e3 * row.floor, place - 0.45, place + 0.45, color=FLOOR, lw=2)
        text = f"{milliseconds:,.0f}" if row.ratio is None else f"{milliseconds:,.0f}  ({row.ratio:.1f} ×)"
        axes.annotate(
            text,
            (1e3 * max(row.times), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xscale(scale)
    if scale == "log":
        axes.set_xlim(0.5e3 * min(row.seconds for row in rows), 6 * longest)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")
    else:
        axes.set_xlim(0, 1.45 * longest)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
