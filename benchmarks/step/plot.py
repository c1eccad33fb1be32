"""Picture of whole steps: time by system, one panel per model and link, with the floors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from benchmarks.common.pictures import BLUE, DARK, PALE, RED, open_picture
from benchmarks.step.rows import FAST, LOOPBACK, SLOW, Row
from benchmarks.step.systems import COMPUTING, NATIVE, SYSTEMS

__all__ = ["draw"]

RANKS = 2
SHOWN = (LOOPBACK, FAST, SLOW)
"""Links of the columns; the delayed one is in the tables."""
LONGEST = 5.0
"""Axes end at so many times the longest step of this library; longer bars are cut, with their number."""


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw one row of panels per model, and one column per link; two ranks.

    Args:
        path: path of the PNG.
        rows: of all jobs.
    """
    chosen = [row for row in rows if row.ranks == RANKS and row.link in SHOWN]
    models = list(dict.fromkeys(row.model for row in chosen))
    links = [link for link in SHOWN if any(row.link == link for row in chosen)]
    if not chosen:
        return
    names = [name for name in SYSTEMS if any(row.system == name for row in chosen)]
    title = f"How many milliseconds does a training step take on {RANKS} ranks?"
    height = 0.7 + 0.25 * len(names)
    with open_picture(path, len(models), len(links), title=title, height=height, sharey=True) as axes:
        for model, across in zip(models, axes, strict=True):
            for link, axis in zip(links, across, strict=True):
                found = {row.system: row for row in chosen if (row.model, row.link) == (model, link)}
                if found:
                    _draw_panel(axis, names, found)
                axis.set_title(f"{model}, {link}", loc="left")
        axes[0, 0].set_yticks(range(len(names)), names)
        axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
        for axis in axes[-1]:
            axis.set_xlabel("milliseconds")
        note = "grey: computing alone; red: torch, blue: this library; black: floor; bars at the edge are cut"
        axes[0, 0].figure.supxlabel(note, x=0.01, ha="left", fontsize=10)


def _draw_panel(axis: Any, names: Sequence[str], found: dict[str, Row]) -> None:
    """Draw a bar per system: computing in grey, what is above it in the colour of its kind."""
    ours = [row.seconds for name, row in found.items() if name not in NATIVE]
    end = min(max(row.seconds for row in found.values()), LONGEST * max(ours))
    for place, name in enumerate(names):
        row = found.get(name)
        if row is None:
            continue
        milliseconds, computing = 1e3 * row.seconds, 1e3 * row.computing
        axis.barh(place, min(computing, milliseconds), 0.72, color=PALE)
        if name != COMPUTING:
            colour = RED if name in NATIVE else BLUE
            axis.barh(place, max(0.0, milliseconds - computing), 0.72, left=computing, color=colour)
        if row.floor is not None:
            axis.vlines(1e3 * row.floor, place - 0.45, place + 0.45, color=DARK, lw=2)
        offset = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(f"{milliseconds:,.0f}", (min(milliseconds, 1e3 * end), place), **offset)
    axis.set_xlim(0, 1e3 * end)
    axis.xaxis.set_major_locator(MaxNLocator(3))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(axis="x", color="0.92")
    axis.set_axisbelow(True)
