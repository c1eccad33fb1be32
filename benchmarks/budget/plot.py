"""Picture of ``budget``: squared error over bits, one panel per gradient, with the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.budget.measurement import Point
from benchmarks.budget.report import Bounds
from benchmarks.budget.schemes import ALL, GRID, SELECTORS

__all__ = ["draw", "trace_front"]

COLUMNS = 3
MIN_BITS, MAX_BITS, MIN_ERROR = 0.02, 4.0, 3e-3


def draw(path: Path, points: Sequence[Point], bounds: Bounds, machine: str) -> None:
    """Draw all curves.

    Args:
        path: path of the PNG.
        points: all measurements.
        bounds: by gradient.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    gradients = list(dict.fromkeys(point.gradient for point in points))
    families = list(dict.fromkeys(point.family for point in points))
    rows = -(-len(gradients) // COLUMNS)
    fig, axes = plt.subplots(rows, COLUMNS, figsize=(18, 6 * rows + 1.5), layout="constrained", squeeze=False)
    for axis, gradient in zip(axes.flat, gradients, strict=False):
        _draw_panel(axis, [point for point in points if point.gradient == gradient], families)
        for bound, style in zip(bounds.get(gradient, ()), ("--", ":"), strict=False):
            bits = np.geomspace(MIN_BITS, MAX_BITS, 60)
            name = "bound, Laplace" if style == "--" else "bound, generalized Gaussian"
            axis.plot(bits, [bound.at(one) for one in bits], style, color="black", lw=1.6, label=name)
        axis.set_title(gradient)
    for axis in list(axes.flat)[len(gradients) :]:
        axis.set_axis_off()
    seen: dict[str, Any] = {}
    for axis in axes.flat:
        handles, labels = axis.get_legend_handles_labels()
        seen |= dict(zip(labels, handles, strict=True))
    fig.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=8, frameon=False)
    fig.suptitle("Squared error over bits per element: lower and further left is better")
    fig.text(0.995, 0.997, machine, fontsize=7, color="grey", ha="right", va="top")
    fig.savefig(path, dpi=75)
    plt.close(fig)


def trace_front(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return (bits, error) of the points that no other point of the curve beats, by bits."""
    front: list[tuple[float, float]] = []
    for bits, error in sorted((point.bits, point.error) for point in points):
        if not front or error < front[-1][1]:
            front.append((bits, error))
    return front


def _draw_panel(axis: Any, points: Sequence[Point], families: Sequence[str]) -> None:
    selectors = {pattern.partition("(")[0] for pattern in SELECTORS}
    for family in families:
        front = trace_front([point for point in points if point.family == family])
        if front:
            axis.plot(*zip(*front, strict=True), label=family, **_style(family, families, selectors))
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(MIN_BITS, MAX_BITS)
    axis.set_ylim(MIN_ERROR, 1.1)
    axis.set_xlabel("bits per element of the gradient, whole container")
    axis.set_ylabel("squared error / Σx²")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.grid(which="major", color="0.9")
    axis.set_axisbelow(True)


def _style(family: str, families: Sequence[str], selectors: set[str]) -> dict[str, Any]:
    """Return the line of a curve: ``budget`` thick, selectors dashed, value codecs thin."""
    if family.startswith("budget"):
        return {"color": ("C3", "C1", "C0")[len(family) % 3], "lw": 2.2, "marker": "o", "ms": 4, "zorder": 3}
    if family == GRID:
        return {"color": "black", "lw": 1.2}
    if family == ALL:
        return {"color": "C2", "lw": 1.6, "marker": "s", "ms": 3}
    color = mpl.colormaps["tab20"].colors[families.index(family) % 20]  # type: ignore[attr-defined]
    return {"color": color, "lw": 0.9, "ls": "--" if family in selectors else "-"}
