"""Style of the pictures: the width of a page, colours that everybody can tell apart, names beside lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

__all__ = [
    "BLUE",
    "COLOURS",
    "DARK",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALE",
    "PINK",
    "RED",
    "SKY",
    "WIDTH",
    "label_ends",
    "open_picture",
]

RED, GREEN, BLUE, PINK, ORANGE, SKY = "#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (RED, GREEN, BLUE, PINK, ORANGE, SKY)
"""Okabe and Ito's colours, which are distinct for colour-blind readers."""
DARK, GREY, PALE = "#333333", "#888888", "#CCCCCC"

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
    for (start, level, name, colour), place in zip(ends, places, strict=True):
        axis.annotate(
            name,
            (min(start, 1), min(max(level, 0), 1)),
            xytext=(x, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkA": 1, "shrinkB": 3},
        )


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
