"""Picture of index codecs: distance from the bound over decoding speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from benchmarks.common.palette import OTHERS, OURS
from benchmarks.common.pictures import open_picture
from benchmarks.index.measurement import Measurement

__all__ = ["draw"]

PANELS = {
    ("uniform", 0.01): "random elements",
    ("rows", 0.01): "rows of 64",
    ("layered", 0.01): "the largest of layers of different scales",
}
FLOOR = 0.001
"""Smaller distances from the bound are drawn at this value."""
SMALLEST = "auto-index(smallest=True)"


def draw(path: Path, measurements: Sequence[Measurement]) -> None:
    """Draw bits above the bound over decoding speed, one panel per kind of support at its largest size.

    Args:
        path: path of the PNG.
        measurements: all measurements; lossy coders are not drawn.
    """
    largest = max((m.d for m in measurements if m.kind == "uniform"), default=0)
    shown = {
        (kind, density): [
            m for m in measurements if m.exact and (m.kind, m.density, m.d) == (kind, density, largest)
        ]
        for kind, density in PANELS
    }
    found = {key: points for key, points in shown.items() if points}
    title = "How many bits per index are above the bound, and how fast are they decoded?"
    with open_picture(path, max(1, len(found)), title=title, height=4.2) as axes:
        for axis, ((kind, density), points) in zip(axes[:, 0], found.items(), strict=False):
            text = f"{100 * density:g} % of {largest:,} elements, {PANELS[kind, density]}"
            axis.set_title(f"{text}: bound {points[0].bound:.2f} bits (red: third-party)", loc="left")
            _draw_panel(axis, points)
        axes[0, 0].figure.canvas.draw()  # so that constrained layout has set the panels' sizes
        for axis in axes[:, 0]:
            _label_points(axis)


def _draw_panel(axis: Any, points: Sequence[Measurement]) -> None:
    for m in points:
        above, colour = max(m.bits - m.bound, FLOOR), OTHERS if m.peer else OURS
        name = "auto-index, smallest" if m.coder == SMALLEST else m.coder
        style = {"mec": colour, "mfc": "none" if m.peer else colour, "label": name, "gid": colour}
        axis.plot(m.decode, above, "o", ms=6, **style)
    axis.set(xscale="log", yscale="log")
    axis.set_xlabel("decoding speed relative to a copy of the uint32 indices, one thread")
    axis.set_ylabel(f"bits per index above the bound (at least {FLOOR:g})")
    axis.xaxis.set_major_formatter("{x:g}×")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.margins(0.12)
    axis.grid(color="0.92")
    axis.set_axisbelow(True)


def _label_points(axis: Any) -> None:
    """Place each point's name as close to it as possible without covering a point or another name."""
    fig = axis.figure
    renderer = fig.canvas.get_renderer()
    centres = [axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in axis.lines]
    occupied = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in centres]
    for line, centre in zip(axis.lines, centres, strict=True):
        style = {"fontsize": 9, "color": line.get_gid(), "va": "center"}
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
