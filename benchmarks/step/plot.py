"""Picture of whole steps: time by system, one panel per model and link, with the floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from benchmarks.common.palette import LIMIT, OTHERS, OURS, PALE
from benchmarks.common.pictures import open_picture
from benchmarks.step.rows import FAST, LOOPBACK, SLOW, Row
from benchmarks.step.systems import COMPUTING, NATIVE, SYSTEMS

__all__ = ["Bar", "draw", "list_bars"]

RANKS = 2
SHOWN = (LOOPBACK, FAST, SLOW)
"""Links of the columns; the delayed one is in the tables."""
LONGEST = 5.0
"""Axes end at so many times the longest step of this library; longer bars are cut, with their number."""


@dataclass(frozen=True)
class Bar:
    """Bar of the picture: a step of one system on two ranks.

    Attributes:
        model, link, system: of the step.
        seconds: of the step, the median.
        computing: seconds of the model alone.
        floor: least seconds of the step, or None if its bytes are not counted.
    """

    model: str
    link: str
    system: str
    seconds: float
    computing: float
    floor: float | None


def list_bars(rows: Sequence[Row]) -> list[Bar]:
    """List the bars of the picture."""
    return [
        Bar(row.model, row.link, row.system, row.seconds, row.computing, row.floor)
        for row in rows
        if row.ranks == RANKS and row.link in SHOWN
    ]


def draw(path: Path, bars: Sequence[Bar]) -> None:
    """Draw one row of panels per model, and one column per link; two ranks.

    Args:
        path: path of the PNG.
        bars: of all panels.
    """
    models = list(dict.fromkeys(bar.model for bar in bars))
    links = [link for link in SHOWN if any(bar.link == link for bar in bars)]
    if not bars:
        return
    names = [name for name in SYSTEMS if any(bar.system == name for bar in bars)]
    title = f"How many milliseconds does a training step take on {RANKS} ranks?"
    height = 0.7 + 0.25 * len(names)
    with open_picture(path, len(models), len(links), title=title, height=height, sharey=True) as axes:
        for model, across in zip(models, axes, strict=True):
            for link, axis in zip(links, across, strict=True):
                found = {bar.system: bar for bar in bars if (bar.model, bar.link) == (model, link)}
                if found:
                    _draw_panel(axis, names, found)
                axis.set_title(f"{model}, {link}", loc="left")
        axes[0, 0].set_yticks(range(len(names)), names)
        axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
        for axis in axes[-1]:
            axis.set_xlabel("milliseconds")
        note = "grey: computing alone; red: torch, blue: this library; black: floor; bars at the edge are cut"
        axes[0, 0].figure.supxlabel(note, x=0.01, ha="left", fontsize=10)


def _draw_panel(axis: Any, names: Sequence[str], found: dict[str, Bar]) -> None:
    """Draw a bar per system: computing in grey, what is above it in the colour of its kind."""
    ours = [bar.seconds for name, bar in found.items() if name not in NATIVE]
    end = min(max(bar.seconds for bar in found.values()), LONGEST * max(ours))
    for place, name in enumerate(names):
        bar = found.get(name)
        if bar is None:
            continue
        milliseconds, computing = 1e3 * bar.seconds, 1e3 * bar.computing
        axis.barh(place, min(computing, milliseconds), 0.72, color=PALE)
        if name != COMPUTING:
            colour = OTHERS if name in NATIVE else OURS
            axis.barh(place, max(0.0, milliseconds - computing), 0.72, left=computing, color=colour)
        if bar.floor is not None:
            axis.vlines(1e3 * bar.floor, place - 0.45, place + 0.45, color=LIMIT, lw=2)
        offset = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(f"{milliseconds:,.0f}", (min(milliseconds, 1e3 * end), place), **offset)
    axis.set_xlim(0, 1e3 * end)
    axis.xaxis.set_major_locator(MaxNLocator(3))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(axis="x", color="0.92")
    axis.set_axisbelow(True)
