"""Picture of ``wirecodec compare --png``: error over bits, with a number per scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wirecodec.cli.files import FileArgument
from wirecodec.cli.formatting import escape, shorten
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.comparison import Comparison
from wirecodec.comparison.rates import find_highest_rate, find_rate, set_rate
from wirecodec.settings.scheme import Scheme

HIGHEST = 1.05
"""Error at the upper edge of a picture."""
_CLASSES = (
    (0.003, "#0072B2", "up to 0.3 %"),
    (0.03, "#009E73", "up to 3 %"),
    (0.3, "#E69F00", "up to 30 %"),
    (math.inf, "#D55E00", "more"),
)
"""Highest density, colour and label of each class."""
_LINE = "#444444"
"""Colour of a line through one scheme's rates."""
_GAP = 14.0
"""Points between the centres of two numbers, or of a number and a dot."""
_MAX_NAME = 60


def draw(title: str, rows: Sequence[Comparison], file: FileArgument) -> None:
    """Draw the error over bits: a dot and a number per scheme, and a line through the rates of one scheme.

    A ring has the tensors each alone. Errors above that of sending nothing are drawn at the upper edge,
    and written in the list of names.

    Args:
        title: the gradient.
        rows: the schemes that encode it.
        file: to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    figure = new_figure(13, 7)
    axes = figure.add_subplot()
    both = any(row.together for row in rows)
    shown = {row.name: row for row in rows if row.together == both}
    alone = {row.name: row for row in rows if both and not row.together}
    _set_axes(axes, rows)
    for name in shown.keys() & alone.keys():
        _join(axes, [alone[name], shown[name]], color=_colour_of(shown[name]), linestyle=":", linewidth=0.9)
    families = group_by_scheme(list(shown.values()))
    for family in families:
        _join(axes, family, color=_LINE, linewidth=1.2)
    for row in alone.values():
        axes.scatter(*_place(row), s=24, facecolor="white", edgecolor=_colour_of(row), linewidth=1, zorder=2)
    for row in shown.values():
        axes.scatter(*_place(row), s=46, color=_colour_of(row), edgecolor="white", linewidth=0.5, zorder=3)
    axes.set_title(title, loc="left", fontsize=11)
    _add_legends(axes, list(shown.values()), has_rings=bool(alone), has_lines=bool(families))
    figure.canvas.draw()  # the layout, which decides where numbers fit
    figure.set_layout_engine("none")
    _number(axes, list(shown.values()), list(alone.values()))
    save_png(figure, file)


def group_by_scheme(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """Group the rows of one scheme at two or more rates, in ascending order of the rates.

    Examples:
        >>> texts = ["topk(0.1) | rice | raw", "all | raw-index | qsgd", "topk(0.01) | rice | raw"]
        >>> [group] = group_by_scheme([Comparison(text, text, True, 1.0, 1.0) for text in texts])
        >>> [row.name for row in group]
        ['topk(0.01) | rice | raw', 'topk(0.1) | rice | raw']
    """
    groups: dict[str, dict[float, Comparison]] = {}
    for row in rows:
        scheme = Scheme.parse(row.scheme)
        rate, highest = find_rate(scheme), find_highest_rate(scheme)
        if rate is not None and highest is not None:
            groups.setdefault(str(set_rate(scheme, highest)), {})[rate] = row
    return [[group[rate] for rate in sorted(group)] for group in groups.values() if len(group) > 1]


def _join(axes: Any, rows: Sequence[Comparison], **style: Any) -> None:
    axes.plot(*zip(*map(_place, rows), strict=True), zorder=1, **style)


def _set_axes(axes: Any, rows: Sequence[Comparison]) -> None:
    """Set titles, and ranges: of bits at least a factor of 4, and of errors from 0 if one is near it."""
    axes.set_xscale("log")
    bits = [row.bits for row in rows]
    low, high = min(bits, default=1.0), max(bits, default=1.0)
    margin = max(1.25, 2 / math.sqrt(high / low))
    axes.set_xlim(low / margin, high * margin)
    axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5), numticks=20)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    errors = [_place(row)[1] for row in rows]
    least, most = min(errors, default=0.0), max(errors, default=HIGHEST)
    start = 0.0 if least < 0.3 * most else least
    space = max(0.05 * (most - start), 0.01)
    axes.set_ylim(start - 1.5 * space, most + space)
    axes.set_xlabel("bits per element")
    axes.set_ylabel("relative error")
    axes.spines[["top", "right"]].set_visible(False)


def _place(row: Comparison) -> tuple[float, float]:
    return row.bits, min(row.relative_error, HIGHEST)


def _colour_of(row: Comparison) -> str:
    return next(colour for highest, colour, _ in _CLASSES if row.density <= highest)


def _describe(row: Comparison) -> str:
    """Return the preset or the scheme of a row, with an error that is above the picture."""
    name = row.scheme if "|" in row.name else row.name
    error = f"  (error {row.relative_error:.3g})" if row.relative_error > HIGHEST else ""
    return shorten(escape(name), _MAX_NAME) + error


def _add_legends(axes: Any, rows: Sequence[Comparison], *, has_rings: bool, has_lines: bool) -> None:
    """Add the colours and the lines below the dots, and the list of numbers beside them."""
    used = {_colour_of(row) for row in rows}
    dots = [
        axes.scatter([], [], s=46, color=colour, label=label)
        for _, colour, label in _CLASSES
        if colour in used
    ]
    if has_rings:
        ring = {"marker": "o", "markersize": 5, "markerfacecolor": "white"}
        label = "same scheme, each tensor alone (dots: all as one)"
        dots += axes.plot([], [], color="#777777", linestyle=":", label=label, **ring)
    if has_lines:
        dots += axes.plot([], [], color=_LINE, linewidth=1.2, label="one scheme at several rates")
    colours = axes.legend(handles=dots, title="density", loc="best", fontsize=9, title_fontsize=9)
    colours.set_alignment("left")
    axes.add_artist(colours)
    names = [
        axes.plot([], [], " ", label=f"{number}  {_describe(row)}")[0] for number, row in enumerate(rows, 1)
    ]
    axes.legend(
        handles=names,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=9,
        frameon=False,
        handlelength=0,
    )


def _number(axes: Any, rows: Sequence[Comparison], others: Sequence[Comparison]) -> None:
    """Write a number beside each dot, at the nearest place that is free."""
    from matplotlib.patheffects import withStroke

    to_points = 72 / axes.figure.dpi

    def locate(row: Comparison) -> tuple[float, float]:
        x, y = axes.transData.transform(_place(row))
        return float(x) * to_points, float(y) * to_points

    taken = [locate(row) for row in (*rows, *others)]
    for number, row in enumerate(rows, 1):
        x, y = locate(row)
        # Below, because lines to errors of tensors alone lead upwards.
        dx, dy = find_free_offset((x, y), taken, first=-math.pi / 2)
        taken.append((x + dx, y + dy))
        far = math.hypot(dx, dy) > 1.5 * _GAP
        axes.annotate(
            str(number),
            _place(row),
            (dx, dy),
            textcoords="offset points",
            fontsize=10,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            ha="center",
            va="center",
            arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.5, "shrinkB": 2}
            if far
            else None,
        )


def find_free_offset(
    at: tuple[float, float],
    taken: Sequence[tuple[float, float]],
    gap: float = _GAP,
    *,
    first: float = math.pi / 2,
) -> tuple[float, float]:
    """Find the shortest offset from a place at which nothing taken is nearer than a gap.

    Args:
        at: the place.
        taken: places, in the same unit; ``at`` may be one of them.
        gap: the least distance.
        first: angle that is tried first; above by default.

    Examples:
        >>> dx, dy = find_free_offset((0, 0), [(0, 0), (10, 0)], gap=8)
        >>> round(dx), round(dy)
        (0, 8)
    """
    for ring in range(1, 12):
        for turn in range(12):
            angle = first + 2 * math.pi * turn / 12
            dx, dy = (ring + 1) / 2 * gap * math.cos(angle), (ring + 1) / 2 * gap * math.sin(angle)
            free = min(math.dist((at[0] + dx, at[1] + dy), other) for other in taken)
            if free >= gap * (1 - 1e-9):
                return dx, dy
    return 0.0, math.copysign(gap, first)
