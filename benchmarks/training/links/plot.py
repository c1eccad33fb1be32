"""Picture of training over shaped links: seconds of every method, one panel per link."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import palette
from benchmarks.common.pictures import open_picture
from benchmarks.training.links.report import OURS
from benchmarks.training.links.rows import Row

__all__ = ["draw"]


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the seconds until dense's final loss + 2 % as bars.

    Args:
        path: of the PNG.
        rows: of all links and methods.
    """
    links = list(dict.fromkeys(row.link for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    title = "How many seconds does a training take to dense's final loss + 2 %?"
    height = 1.0 + 0.3 * len(methods)
    with open_picture(path, 1, len(links), title=title, height=height, sharey=True) as axes:
        for axis, link in zip(axes[0], links, strict=True):
            _draw_link(axis, methods, {row.method: row for row in rows if row.link == link})
            axis.set_title(f"links of {link}/s", loc="left")
        axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)


def _draw_link(axis: Any, methods: Sequence[str], rows: dict[str, Row]) -> None:
    longest = max((row.seconds or 0.0 for row in rows.values()), default=0.0) or 1.0
    for place, method in enumerate(methods):
        row = rows.get(method)
        if row is None:
            continue
        colour = palette.OURS if method in OURS else palette.DENSE if method == "dense" else palette.OTHERS
        axis.barh(place, row.seconds or 0, 0.7, color=colour)
        text = "ends above it" if row.seconds is None else f"{row.seconds:.0f}"
        axis.annotate(text, (row.seconds or 0, place), xytext=(4, 0), textcoords="offset points", va="center")
    axis.set_yticks(range(len(methods)), methods)
    axis.set_xlim(0, 1.15 * longest)
    axis.set_xlabel("seconds since the first step")
    axis.grid(axis="x", color="0.92")
    axis.set_axisbelow(True)
