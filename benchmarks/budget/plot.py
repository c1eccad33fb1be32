"""Picture of ``budget``: squared errors of other schemes at equal bits, relative to its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.budget.bounds import Bound
from benchmarks.budget.measurement import Point
from benchmarks.budget.schemes import ALL, GRID
from benchmarks.common.palette import GREEN, LIMIT, ORANGE, OTHERS, OURS, PINK, SKY
from benchmarks.common.pictures import label_ends, open_picture

__all__ = ["compare", "draw", "trace_front"]

REFERENCE = "budget, rice"
GRADIENTS = {
    "lstm_raw_slice": "gradient of an LSTM",
    "resnet20_residual": "gradient + residual of a ResNet-20",
    "layers": "eight layers of different scales",
    "laplace": "independent Laplace values",
}
"""Panels; the other gradients are in the data."""
FAMILIES = {
    "raw": ("top-k, float32", OTHERS, "s"),
    "qsgd": ("top-k, QSGD", ORANGE, "^"),
    ALL: ("all, coarse step", GREEN, "P"),
    GRID: ("best of 132 schemes", PINK, ""),
    "budget, context": ("budget, context", SKY, "o"),
}
"""{curve: (name, colour, mark)}; the reference is the line at 1."""
MIN_BITS, MAX_BITS = 0.03, 2.0
"""Range of the budgets."""
LEAST, MOST = 0.4, 10.0


def draw(path: Path, points: Sequence[Point], bounds: Mapping[str, tuple[Bound, Bound]]) -> None:
    """Draw one panel per kind of gradient, with one line per curve of schemes.

    Args:
        path: of the PNG.
        points: all measurements.
        bounds: by gradient.
    """
    known = {point.gradient for point in points}
    gradients = [name for name in GRADIENTS if name in known]
    title = "How large is the squared error of other schemes, relative to budget's at equal bits?"
    with open_picture(path, len(gradients), title=title, height=3.1) as axes:
        for axis, name in zip(axes[:, 0], gradients, strict=True):
            _draw_panel(axis, name, [point for point in points if point.gradient == name], bounds.get(name))


def trace_front(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return (bits, error) of the points that no other point of the curve beats, by bits."""
    front: list[tuple[float, float]] = []
    for bits, error in sorted((point.bits, point.error) for point in points):
        if not front or error < front[-1][1]:
            front.append((bits, error))
    return front


def compare(front: Sequence[tuple[float, float]], reference: Sequence[tuple[float, float]]) -> list[Any]:
    """Return (bits, error relative to the reference's) where the reference is known.

    Args:
        front: (bits, error) of a curve.
        reference: the same, between whose points errors are interpolated on logarithmic scales.
    """
    known = np.log(np.array(reference))
    low, high = known[0, 0] - 1e-9, known[-1, 0] + 1e-9
    return [
        (bits, error / math.exp(float(np.interp(math.log(bits), *known.T))))
        for bits, error in front
        if low <= math.log(bits) <= high
    ]


def _draw_panel(axis: Any, name: str, points: Sequence[Point], bounds: tuple[Bound, Bound] | None) -> None:
    reference = trace_front([point for point in points if point.family == REFERENCE])
    ends = [(MAX_BITS, 1.0, "budget, rice", OURS)]
    axis.axhline(1, color=OURS, lw=2)
    for family, (label, colour, mark) in FAMILIES.items():
        line = compare(trace_front([point for point in points if point.family == family]), reference)
        if line:
            style = {"color": colour, "lw": 1.6, "marker": mark, "ms": 5}
            axis.plot(*zip(*line, strict=True), **style)
            ends.append((*line[-1], label, colour))
    if bounds is not None and name == "laplace":
        line = compare([(bits, bounds[0].at(bits)) for bits, _ in reference], reference)
        line = [(bits, ratio) for bits, ratio in line if not math.isnan(ratio)]
        axis.plot(*zip(*line, strict=True), "--", color=LIMIT, lw=1.6)
        ends.append((*line[-1], "bound", LIMIT))
    axis.set_title(GRADIENTS[name], loc="left")
    axis.set(xscale="log", yscale="log", xlabel="bits per element of the gradient, whole container")
    axis.set_ylabel("squared error / budget's (less is better)")
    axis.set_xlim(MIN_BITS, MAX_BITS)
    axis.set_ylim(LEAST, MOST)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xticks([0.03, 0.1, 0.3, 1, 2])
    axis.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axis.minorticks_off()
    axis.grid(color="0.92")
    axis.set_axisbelow(True)
    label_ends(axis, ends)
