"""Picture of whole steps: time by system, one panel per model and link, with the floors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from benchmarks.common.palette import LIMIT, OTHERS, OURS, PALE
from benchmarks.common.pictures import open_picture
from benchmarks.step.kept import Step
from benchmarks.step.rows import FAST, LOOPBACK, SLOW
from benchmarks.step.systems import COMPUTING, NATIVE, SYSTEMS

__all__ = ["draw"]

RANKS = 2
SHOWN = (LOOPBACK, FAST, SLOW)
"""Links of the columns; the delayed one is in the tables."""
LONGEST = 5.0
"""Axes end at so many times the longest step of this library; longer bars are cut, with their number."""


def draw(path: Path, steps: Sequence[Step]) -> None:
    """Draw one row of panels per model, and one column per link; two ranks.

    Args:
        path: path of the PNG.
        steps: of all systems; those on two ranks over the links of ``SHOWN`` are drawn.
    """
    bars = [step for step in steps if step.ranks == RANKS and step.link in SHOWN]
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


def _draw_panel(axis: Any, names: Sequence[str], found: dict[str, Step]) -> None:
    """Draw a bar per system: computing in grey, what is above it in the colour of its kind."""
    ours = [bar.milliseconds for name, bar in found.items() if name not in NATIVE]
    end = min(max(bar.milliseconds for bar in found.values()), LONGEST * max(ours))
    computing = found[COMPUTING].milliseconds
    for place, name in enumerate(names):
        bar = found.get(name)
        if bar is None:
            continue
        axis.barh(place, min(computing, bar.milliseconds), 0.72, color=PALE)
        if name != COMPUTING:
            colour = OTHERS if name in NATIVE else OURS
            axis.barh(place, max(0.0, bar.milliseconds - computing), 0.72, left=computing, color=colour)
        if bar.floor is not None:
            axis.vlines(bar.floor, place - 0.45, place + 0.45, color=LIMIT, lw=2)
        offset = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(f"{bar.milliseconds:,.0f}", (min(bar.milliseconds, end), place), **offset)
    axis.set_xlim(0, end)
    axis.xaxis.set_major_locator(MaxNLocator(3))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(axis="x", color="0.92")
    axis.set_axisbelow(True)
