"""Picture of value codecs: bits per value over error, with the rate-distortion bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.value.measurement import Measurement
from benchmarks.value.rate_distortion import ERRORS, Curve

__all__ = ["draw"]

COLUMN = "top 1 %"
MAX_ERROR, MIN_ERROR, MAX_BITS = 1.5, 3e-4, 18
"""Range of errors and bits; lossless coders are listed with their bits."""


def draw(
    path: Path, measurements: Sequence[Measurement], curves: dict[tuple[str, str], Curve], machine: str
) -> None:
    """Draw the largest 1 %, one panel per distribution and gradient.

    Args:
        path: path of the PNG.
        measurements: all measurements.
        curves: the bounds.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys(group for group, column in curves if column == COLUMN))[:6]
    rows = max(1, -(-len(groups) // 3))
    fig, axes = plt.subplots(rows, 3, figsize=(17, 7 * rows), layout="constrained", squeeze=False)
    styles = _choose_styles(measurements)
    for axis, group in zip(axes.flat, groups, strict=False):
        shown = [m for m in measurements if (m.case.group, m.case.column) == (group, COLUMN)]
        axis.set_title(f"{group}, {COLUMN}: {shown[0].r if shown else 0:,} values")
        _draw_panel(axis, shown, curves[group, COLUMN], styles)
    for axis in list(axes.flat)[len(groups) :]:
        axis.set_axis_off()
    seen: dict[str, Any] = {}
    for axis in axes.flat:
        handles, labels = axis.get_legend_handles_labels()
        seen |= dict(zip(labels, handles, strict=True))
    fig.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=8, frameon=False)
    fig.suptitle(
        "Size and error of value codecs: lower and further right is better; black: rate-distortion bound"
    )
    fig.text(0.995, 0.992, machine, fontsize=7, color="grey", ha="right", va="top")
    fig.savefig(path, dpi=90)
    plt.close(fig)


def _choose_styles(measurements: Sequence[Measurement]) -> dict[str, dict[str, Any]]:
    """Choose a colour and a marker for each family; peers have hollow markers and dashed lines."""
    families = list(dict.fromkeys((m.family, m.peer) for m in measurements))
    colors, marks = mpl.colormaps["tab20"].colors, "osD^vP*Xh<>p"  # type: ignore[attr-defined]
    return {
        family: {
            "color": colors[i % 20],
            "marker": marks[i % len(marks)],
            "mfc": "none" if peer else colors[i % 20],
            "ls": "--" if peer else "-",
        }
        for i, (family, peer) in enumerate(families)
    }


def _draw_panel(
    axis: Any, shown: Sequence[Measurement], bound: Curve, styles: dict[str, dict[str, Any]]
) -> None:
    errors = np.geomspace(MIN_ERROR, ERRORS[0], 60)
    axis.plot(errors, [bound.at(error) for error in errors], color="black", lw=2, label="bound")
    lossless = [f"{m.coder}  {m.bits:.1f}" for m in shown if m.error == 0]
    axis.text(0.02, 0.98, "\n".join(["lossless:", *lossless]), va="top", fontsize=8, transform=axis.transAxes)
    ordered = sorted((m for m in shown if m.error > 0), key=lambda m: m.family)
    for family, found in groupby(ordered, key=lambda m: m.family):
        points = sorted((m.error, m.bits) for m in found)
        axis.plot(*zip(*points, strict=True), label=family, ms=6, lw=0.8, **styles[family])
    axis.set_xscale("log")
    axis.set_xlim(MAX_ERROR, 0.9 * MIN_ERROR)
    axis.set_ylim(0, MAX_BITS)
    axis.set_xlabel("relative L2 error  (smaller →)")
    axis.set_ylabel("bits per value, with all side information  (← smaller)")
    axis.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
    axis.grid(which="major", color="0.9")
    axis.set_axisbelow(True)
