"""Picture of ``wirecodec compare --png``: error over bits, with a number per scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wirecodec.cli.files import FileArgument
from wirecodec.cli.formatting import escape, shorten
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.comparison import Comparison

HIGHEST = 1.05
"""Error at the upper edge of a picture."""
_CLASSES = (
    (0.003, "#0072B2", "up to 0.3 %"),
    (0.03, "#009E73", "up to 3 %"),
    (0.3, "#E69F00", "up to 30 %"),
    (math.inf, "#D55E00", "more"),
)
"""Highest density, colour and label of each class."""
_GAP = 11.0
"""Points between the centres of two numbers, or of a number and a dot."""
_MAX_NAME = 60


def draw(title: str, rows: Sequence[Comparison], file: FileArgument) -> None:
    """Draw the error over bits: a dot and a number per scheme.

    A small dot has the tensors each alone. Errors above that of sending nothing are drawn at the upper edge,
    and written in the list of names.

    Args:
        title: the gradient.
        rows: the schemes that encode it.
        file: to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    figure = new_figure(11, 6)
    axes = figure.add_subplot()
    both = any(row.together for row in rows)
    shown = {row.name: row for row in rows if row.together == both}
    alone = {row.name: row for row in rows if both and not row.together}
    axes.set_xscale("log")
    axes.set_ylim(-0.03, HIGHEST + 0.05)
    axes.set_xlabel("bits per element")
    axes.set_ylabel("relative error")
    for name, row in shown.items():
        colour = _colour_of(row)
        if name in alone:
            ends = zip(_place(alone[name]), _place(row), strict=True)
            axes.plot(*ends, color="#BBBBBB", linewidth=0.8, zorder=1)
            axes.scatter(*_place(alone[name]), s=10, color="#999999", zorder=1)
        axes.scatter(*_place(row), s=34, color=colour, edgecolor="white", linewidth=0.5, zorder=3)
    note = "\nlarge dots: all tensors as one vector; grey: each alone" if alone else ""
    axes.set_title(title + note, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    _add_legends(axes, list(shown.values()))
    figure.canvas.draw()  # the layout, which decides where numbers fit
    figure.set_layout_engine("none")
    _number(axes, list(shown.values()), list(alone.values()))
    save_png(figure, file)


def _place(row: Comparison) -> tuple[float, float]:
    return row.bits, min(row.relative_error, HIGHEST)


def _colour_of(row: Comparison) -> str:
    return next(colour for highest, colour, _ in _CLASSES if row.density <= highest)


def _describe(row: Comparison) -> str:
    """Return the name of a row, with an error that is above the picture."""
    error = f"  (error {row.relative_error:.3g})" if row.relative_error > HIGHEST else ""
    return shorten(escape(row.name), _MAX_NAME) + error


def _add_legends(axes: Any, rows: Sequence[Comparison]) -> None:
    """Add the colours below the dots, and the list of numbers beside them."""
    used = {_colour_of(row) for row in rows}
    dots = [
        axes.scatter([], [], s=34, color=colour, label=label)
        for _, colour, label in _CLASSES
        if colour in used
    ]
    colours = axes.legend(handles=dots, title="density", loc="lower left", fontsize=8, title_fontsize=8)
    axes.add_artist(colours)
    names = [
        axes.plot([], [], " ", label=f"{number}  {_describe(row)}")[0] for number, row in enumerate(rows, 1)
    ]
    axes.legend(
        handles=names,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=7,
        frameon=False,
        handlelength=0,
    )


def _number(axes: Any, rows: Sequence[Comparison], others: Sequence[Comparison]) -> None:
    """Write a number beside each dot, at the nearest place that is free."""
    to_points = 72 / axes.figure.dpi

    def locate(row: Comparison) -> tuple[float, float]:
        x, y = axes.transData.transform(_place(row))
        return float(x) * to_points, float(y) * to_points

    taken = [locate(row) for row in (*rows, *others)]
    for number, row in enumerate(rows, 1):
        x, y = locate(row)
        dx, dy = find_free_offset((x, y), taken)
        taken.append((x + dx, y + dy))
        far = math.hypot(dx, dy) > 1.5 * _GAP
        axes.annotate(
            str(number),
            _place(row),
            (dx, dy),
            textcoords="offset points",
            fontsize=7.5,
            ha="center",
            va="center",
            arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.5, "shrinkB": 2}
            if far
            else None,
        )


def find_free_offset(
    at: tuple[float, float], taken: Sequence[tuple[float, float]], gap: float = _GAP
) -> tuple[float, float]:
    """Find the shortest offset from a place at which nothing taken is nearer than a gap.

    Args:
        at: the place.
        taken: places, in the same unit; ``at`` may be one of them.
        gap: the least distance.

    Examples:
        >>> dx, dy = find_free_offset((0, 0), [(0, 0), (10, 0)], gap=8)
        >>> round(dx), round(dy)
        (0, 8)
    """
    for ring in range(1, 12):
        for turn in range(12):
            angle = math.pi / 2 + 2 * math.pi * turn / 12
            dx, dy = (ring + 1) / 2 * gap * math.cos(angle), (ring + 1) / 2 * gap * math.sin(angle)
            free = min(math.dist((at[0] + dx, at[1] + dy), other) for other in taken)
            if free >= gap * (1 - 1e-9):
                return dx, dy
    return 0.0, gap
