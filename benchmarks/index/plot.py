"""Picture of index codecs: distance from the bound over decoding speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from benchmarks.index.measurement import Measurement

__all__ = ["draw"]

PANELS = (("uniform", 0.1), ("rows", 0.01), ("runs", 0.01), ("layered", 0.01))
FLOOR = 0.001
"""Smaller distances from the bound are drawn at this value."""

CODEC, PEER = "#1f4e9c", "#c2571a"


def draw(path: Path, measurements: Sequence[Measurement], machine: str) -> None:
    """Draw bits above the bound over decoding speed, one panel per kind of support at its largest size.

    Args:
        path: path of the PNG.
        measurements: all measurements; lossy coders are not drawn.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    largest = max((m.d for m in measurements if m.kind == "uniform"), default=0)
    fig, axes = plt.subplots(2, 2, figsize=(13, 11), layout="constrained")
    for axis, (kind, density) in zip(axes.flat, PANELS, strict=True):
        shown = [
            m for m in measurements if m.exact and (m.kind, m.case.density, m.d) == (kind, density, largest)
        ]
        axis.set_title(f"{kind}, {100 * density:g} % of {largest:,}" + _format_bound(shown))
        if shown:
            _draw_panel(axis, shown)
    fig.legend(
        handles=[
            Line2D([], [], marker="o", ls="", color=CODEC, label="wirecodec"),
            Line2D([], [], marker="o", ls="", mec=PEER, mfc="none", label="third-party"),
        ],
        loc="outside lower right",
        ncols=2,
        frameon=False,
    )
    fig.supxlabel("decoding speed relative to a copy of the uint32 indices, one thread  (faster →)")
    fig.supylabel(f"bits per index above the bound, {FLOOR:g} if at or below it  (← smaller)")
    fig.suptitle("Size and speed of index codecs: lower and further right is better")
    fig.text(0.995, 0.988, machine, fontsize=7, color="grey", ha="right")
    fig.canvas.draw()
    for axis in axes.flat:
        _label_points(axis)
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _format_bound(shown: Sequence[Measurement]) -> str:
    return f": bound {shown[0].bound:.3f} bits" if shown else ""


def _draw_panel(axis: Any, shown: Sequence[Measurement]) -> None:
    for m in shown:
        above = max(m.bits - m.bound, FLOOR)
        color = PEER if m.peer else CODEC
        axis.plot(
            m.speeds[1],
            above,
            "o",
            ms=7,
            mec=color,
            mfc="none" if m.peer else color,
            label=m.coder,
            gid=color,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_formatter("{x:g}×")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.margins(0.12)
    axis.grid(which="major", color="0.9")
    axis.set_axisbelow(True)


def _label_points(axis: Any) -> None:
    """Place each point's name as close to it as possible without covering a point or another name."""
    fig = axis.figure
    renderer = fig.canvas.get_renderer()
    centres = [axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in axis.lines]
    occupied = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in centres]
    for line, centre in zip(axis.lines, centres, strict=True):
        style = {"fontsize": 8, "color": line.get_gid(), "va": "center"}
        text = axis.text(*centre, line.get_label(), transform=None, **style)
        size = text.get_window_extent(renderer)
        for box in _generate_boxes(centre[0], centre[1], size.width, size.height):
            inside = (
                axis.bbox.containsx(box.x0) and axis.bbox.containsx(box.x1) and axis.bbox.containsy(box.y0)
            )
            if inside and axis.bbox.containsy(box.y1) and not any(box.overlaps(other) for other in occupied):
                occupied.append(box)
                text.set_position((box.x0, (box.y0 + box.y1) / 2))
                break
        if abs((box.y0 + box.y1) / 2 - centre[1]) > 12:
            end = (min(max(centre[0], box.x0), box.x1), box.y0 if box.y0 > centre[1] else box.y1)
            axis.add_line(Line2D(*zip(centre, end, strict=True), transform=None, color="0.6", lw=0.7))


def _generate_boxes(x: float, y: float, width: float, height: float) -> Iterator[Bbox]:
    """Yield candidate positions for the name of a point, nearest first."""
    for drop in range(0, 160, 8):
        for sign in (1, -1):
            for left in (x + 10, x - 10 - width, x - width / 2):
                if drop > 8 or left != x - width / 2:
                    yield Bbox.from_bounds(left, y + sign * drop - height / 2, width, height)
