"""The picture: how far each coder is from the bound, and how fast it decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from benchmarks.index.measurement import Figure

__all__ = ["draw"]

PANELS = (("uniform", 0.1), ("rows", 0.01), ("runs", 0.01), ("layered", 0.01))
FLOOR = 0.001
"""What is closer to the bound is drawn here."""

CODEC, PEER = "#1f4e9c", "#c2571a"


def draw(path: Path, figures: Sequence[Figure], machine: str) -> None:
    """One panel a kind of support, its largest: bits above the bound over decode speed.

    Args:
        path: of the PNG.
        figures: all; coders that lose indices are not drawn.
        machine: its name.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    largest = max((f.d for f in figures if f.kind == "uniform"), default=0)
    fig, axes = plt.subplots(2, 2, figsize=(13, 11), layout="constrained")
    for axis, (kind, density) in zip(axes.flat, PANELS, strict=True):
        shown = [f for f in figures if f.exact and (f.kind, f.case.density, f.d) == (kind, density, largest)]
        axis.set_title(f"{kind}, {100 * density:g} % of {largest:,}" + _bound(shown))
        if shown:
            _panel(axis, shown)
    fig.legend(
        handles=[
            Line2D([], [], marker="o", ls="", color=CODEC, label="wirecodec"),
            Line2D([], [], marker="o", ls="", mec=PEER, mfc="none", label="others"),
        ],
        loc="outside lower right",
        ncols=2,
        frameon=False,
    )
    fig.supxlabel("decode speed relative to a copy of the u32 indices, one thread  (faster →)")
    fig.supylabel(f"bits an index above the bound, {FLOOR:g} where on or below it  (← smaller)")
    fig.suptitle("What an index costs: lower and further right is better")
    fig.text(0.995, 0.988, machine, fontsize=7, color="grey", ha="right")
    fig.canvas.draw()
    for axis in axes.flat:
        _label(axis)
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _bound(shown: Sequence[Figure]) -> str:
    return f": bound {shown[0].bound:.3f} bits" if shown else ""


def _panel(axis: Any, shown: Sequence[Figure]) -> None:
    for f in shown:
        above = max(f.bits - f.bound, FLOOR)
        color = PEER if f.peer else CODEC
        axis.plot(
            f.speeds[1],
            above,
            "o",
            ms=7,
            mec=color,
            mfc="none" if f.peer else color,
            label=f.coder,
            gid=color,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_formatter("{x:g}×")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.margins(0.12)
    axis.grid(which="major", color="0.9")
    axis.set_axisbelow(True)


def _label(axis: Any) -> None:
    """Each point's name, as near to it as covers no point and no other name."""
    fig = axis.figure
    renderer = fig.canvas.get_renderer()
    centres = [axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in axis.lines]
    taken = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in centres]
    for line, centre in zip(axis.lines, centres, strict=True):
        style = {"fontsize": 8, "color": line.get_gid(), "va": "center"}
        text = axis.text(*centre, line.get_label(), transform=None, **style)
        size = text.get_window_extent(renderer)
        for box in _boxes(centre[0], centre[1], size.width, size.height):
            inside = (
                axis.bbox.containsx(box.x0) and axis.bbox.containsx(box.x1) and axis.bbox.containsy(box.y0)
            )
            if inside and axis.bbox.containsy(box.y1) and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                text.set_position((box.x0, (box.y0 + box.y1) / 2))
                break
        if abs((box.y0 + box.y1) / 2 - centre[1]) > 12:
            end = (min(max(centre[0], box.x0), box.x1), box.y0 if box.y0 > centre[1] else box.y1)
            axis.add_line(Line2D(*zip(centre, end, strict=True), transform=None, color="0.6", lw=0.7))


def _boxes(x: float, y: float, width: float, height: float) -> Iterator[Bbox]:
    """Where the name of a point may stand, the nearest first."""
    for drop in range(0, 160, 8):
        for sign in (1, -1):
            for left in (x + 10, x - 10 - width, x - width / 2):
                if drop > 8 or left != x - width / 2:
                    yield Bbox.from_bounds(left, y + sign * drop - height / 2, width, height)
