"""Style of the pictures: the width of a page, and names beside or on lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

__all__ = ["WIDTH", "label_ends", "label_lines", "open_picture"]

WIDTH = 8.0
"""Inches; a page shows a picture about 800 pixels wide, so a point keeps its size."""
DPI = 120
FONT = 10


@contextmanager
def open_picture(
    path: Path, rows: int, columns: int = 1, *, title: str = "", height: float = 3.2, **layout: Any
) -> Iterator[Any]:
    """Open a picture of the page's width with rows × columns panels; save it after the block.

    Args:
        path: of the PNG.
        rows, columns: of panels.
        title: the question that the picture answers.
        height: inches per row.
        layout: for ``Figure.subplots``, such as ``sharey``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = {"font.size": FONT, "axes.titlesize": FONT, "legend.frameon": False, "legend.fontsize": FONT}
    with mpl.rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(WIDTH, height * rows + 0.4 * bool(title)), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, **layout)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=FONT + 2)
        yield axes
        figure.savefig(path, format="png")


def label_ends(axis: Any, labels: Sequence[tuple[float, float, str, str]], *, x: float = 1.02) -> None:
    """Write the names of lines beside a panel, at the height of their ends, without overlaps.

    Call it after the limits of the panel are set.

    Args:
        axis: the panel.
        labels: (x, y, name, colour) of each end.
        x: of the names, in widths of the panel.
    """
    figure = axis.figure
    figure.canvas.draw()  # so that constrained layout has set the panel's size
    height = axis.get_window_extent().height
    least = 1.25 * FONT * figure.dpi / 72 / height
    to_axes = axis.transAxes.inverted()
    ends = sorted(
        (*to_axes.transform(axis.transData.transform((one, y))), name, colour)
        for one, y, name, colour in labels
    )
    ends.sort(key=lambda end: end[1])
    places = _spread([float(min(max(end[1], 0), 1)) for end in ends], least)
    lift = max(0.0, least / 4 - places[0]) if places else 0.0  # above the numbers of the axis
    for (start, level, name, colour), place in zip(ends, places, strict=True):
        axis.annotate(
            name,
            (min(start, 1), min(max(level, 0), 1)),
            xytext=(x, place + lift),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.6,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def label_lines(
    axis: Any,
    lines: Sequence[tuple[Sequence[tuple[float, float]], str, str]],
    marks: Sequence[tuple[float, float]] = (),
) -> None:
    """Write the names of lines inside a panel, each at a point of its line, over no line, mark or name.

    Of the places around a line's points, the first one that covers the least is taken. Places next to other
    lines are avoided. Call it after the limits of the panel are set.

    Args:
        axis: the panel.
        lines: (points, name, colour) of each line.
        marks: further points that stay free.
    """
    figure = axis.figure
    figure.canvas.draw()  # so that constrained layout has set the panel's size
    unit = FONT * figure.dpi / 72
    panel = axis.get_window_extent()
    to_pixels = axis.transData.transform
    corners = [to_pixels(points) for points, _, _ in lines]
    filled = [_fill(points) for points in corners]
    names = [to_pixels(marks)] if marks else []
    for number, (points, (_, name, colour)) in enumerate(zip(corners, lines, strict=True)):
        text = axis.text(0, 0, name, color=colour, va="bottom", ha="left", in_layout=False)
        size = np.array(text.get_window_extent().size)
        others = np.concatenate([*filled[:number], *filled[number + 1 :], *names, np.zeros((0, 2))])
        everything = np.concatenate([others, filled[number]])
        best, least = points[0], np.inf
        for point, gap, right, up in product(points, GAPS, *(PLACES,) * 2):
            side = np.array([right, up])
            low = point + gap * unit * (2 * side - 1) - size * (1 - side)
            cost: float = COVERED * _count(everything, low, low + size, unit / 2)
            cost += _count(others, low, low + size, unit) + FAR * gap
            if (low < panel.min).any() or (low + size > panel.max).any():
                cost += COVERED * len(everything)
            if cost < least:
                best, least = low, cost
        text.set_position(axis.transData.inverted().transform(best))
        names.append(_fill_box(best, best + size))


GAPS = 0.9, 1.5, 2.2
"""Distances of a name from its point, in heights of the font."""
PLACES = 1.0, 0.0, 0.5
"""Right or above, left or below, and centred."""
COVERED, FAR = 20, 10
"""Cost of a point that a name covers, and of a height of the font between a name and its line."""


def _count(points: Any, low: Any, high: Any, margin: float) -> int:
    """Count the points in a box and its margin."""
    return int(((points > low - margin) & (points < high + margin)).all(axis=1).sum())


def _fill(points: Any) -> Any:
    """Return points about two pixels apart on the line through some points."""
    pieces = [points[:1]]
    for one, other in pairwise(points):
        steps = max(2, int(np.abs(other - one).max() / 2))
        pieces.append(np.linspace(one, other, steps))
    return np.concatenate(pieces)


def _fill_box(low: Any, high: Any) -> Any:
    """Return points four pixels apart in a box."""
    across, up = (np.arange(a, b, 4) for a, b in zip(low, high, strict=True))
    return np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def _spread(places: Sequence[float], least: float) -> list[float]:
    """Move ascending places apart to a least distance, each group around its mean."""
    groups = [[place] for place in places]
    middles = list(places)
    i = 0
    while i + 1 < len(groups):
        reach = least * (len(groups[i]) + len(groups[i + 1])) / 2
        if middles[i + 1] - middles[i] < reach:
            groups[i : i + 2] = [groups[i] + groups[i + 1]]
            middles[i : i + 2] = [sum(groups[i]) / len(groups[i])]
            i = max(0, i - 1)
        else:
            i += 1
    return [
        middle + least * (number - (len(group) - 1) / 2)
        for group, middle in zip(groups, middles, strict=True)
        for number in range(len(group))
    ]
