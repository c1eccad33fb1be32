"""Picture of value codecs: bits above the rate-distortion bound, over the error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.palette import GREEN, LIMIT, ORANGE, OTHERS, OURS, PALE, PINK, SKY
from benchmarks.common.pictures import label_ends, open_picture
from benchmarks.value.kept import Curves
from benchmarks.value.measurement import Measurement

__all__ = ["COLUMN", "draw"]

COLUMN = "top 1 %"
GROUPS = {
    "laplace": "the largest 1 % of Laplace values",
    "lstm_raw_slice": "the largest 1 % of an LSTM's gradient",
    "resnet20_residual": "the largest 1 % of a ResNet-20's gradient + residual",
}
"""Panels; the other vectors are in the data."""
FAMILIES = {
    "error-bounded": ("error-bounded", OURS, "o"),
    "SZ3": ("SZ3", OTHERS, "D"),
    "pcodec, integers": ("pcodec", ORANGE, "v"),
    "blosc2, rounded": ("blosc2", PINK, "P"),
    "offset-float": ("offset-float", GREEN, "s"),
    "qsgd": ("qsgd", SKY, "^"),
}
"""{family: (name, colour, mark)} of the lines."""
MAX_ERROR, MIN_ERROR = 0.3, 8e-4
"""Range in which the bound is known, up to the error of the strictest codecs."""
LOWEST, HIGHEST = -1.2, 6.0


def draw(path: Path, measurements: Sequence[Measurement], curves: Curves) -> None:
    """Draw one panel per kind of vector, with one line per family of codecs.

    Args:
        path: of the PNG.
        measurements: all measurements.
        curves: the bounds.
    """
    groups = [group for group in GROUPS if (group, COLUMN) in curves]
    title = "How many bits per value does each codec take above the rate-distortion bound?"
    with open_picture(path, len(groups), title=title, height=3.4) as axes:
        for axis, group in zip(axes[:, 0], groups, strict=True):
            _draw_panel(axis, group, [m for m in measurements if (m.group, m.column) == (group, COLUMN)])


def _draw_panel(axis: Any, group: str, shown: Sequence[Measurement]) -> None:
    shown = [m for m in shown if MIN_ERROR < m.error <= MAX_ERROR and m.bits - m.bound < HIGHEST]
    ends = [(MIN_ERROR, 0.0, "bound", LIMIT)]
    axis.axhline(0, color=LIMIT, lw=1.5)
    others = [m for m in shown if m.family not in FAMILIES and m.family != "auto-value"]
    axis.plot(
        [m.error for m in others],
        [m.bits - m.bound for m in others],
        "o",
        color=PALE,
    )
    for family, (name, colour, mark) in FAMILIES.items():
        points = sorted(((m.error, m.bits - m.bound) for m in shown if m.family == family), reverse=True)
        if points:
            axis.plot(*zip(*points, strict=True), f"{mark}-", color=colour, lw=1.6, ms=6)
            ends.append((*points[-1], name, colour))
    axis.set_title(f"{GROUPS[group]} (grey: other codecs, by name in the table)", loc="left")
    axis.set(xscale="log", xlabel="relative L2 error of the values (smaller to the right)")
    axis.set_ylabel("bits per value above the bound")
    axis.set_xlim(MAX_ERROR, MIN_ERROR)
    axis.set_ylim(LOWEST, HIGHEST)
    axis.set_xticks([0.3, 0.1, 0.03, 0.01, 0.003, 0.001])
    axis.minorticks_off()
    axis.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
    axis.grid(color="0.92")
    axis.set_axisbelow(True)
    label_ends(axis, ends)
