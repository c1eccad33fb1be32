"""The picture: bits a value over error, every codec and peer beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.value.measurement import Figure
from benchmarks.value.rate_distortion import ERRORS, Curve

__all__ = ["draw"]

COLUMN = "top 1 %"
LARGEST, LEAST, MOST = 1.5, 3e-4, 18
"""Errors and bits that are drawn; what has none of an error is named with its bits."""


def draw(path: Path, figures: Sequence[Figure], curves: dict[tuple[str, str], Curve], machine: str) -> None:
    """One panel a law and a gradient: the largest 1 %.

    Args:
        path: of the PNG.
        figures: all.
        curves: the bounds.
        machine: its name.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys(group for group, column in curves if column == COLUMN))[:6]
    rows = max(1, -(-len(groups) // 3))
    fig, axes = plt.subplots(rows, 3, figsize=(17, 7 * rows), layout="constrained", squeeze=False)
    styles = _styles(figures)
    for axis, group in zip(axes.flat, groups, strict=False):
        shown = [f for f in figures if (f.case.group, f.case.column) == (group, COLUMN)]
        axis.set_title(f"{group}, {COLUMN}: {shown[0].r if shown else 0:,} values")
        _panel(axis, shown, curves[group, COLUMN], styles)
    for axis in list(axes.flat)[len(groups) :]:
        axis.set_axis_off()
    seen: dict[str, Any] = {}
    for axis in axes.flat:
        handles, labels = axis.get_legend_handles_labels()
        seen |= dict(zip(labels, handles, strict=True))
    fig.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=8, frameon=False)
    fig.suptitle("What values cost: lower and further right is better; black is the rate-distortion bound")
    fig.text(0.995, 0.992, machine, fontsize=7, color="grey", ha="right", va="top")
    fig.savefig(path, dpi=90)
    plt.close(fig)


def _styles(figures: Sequence[Figure]) -> dict[str, dict[str, Any]]:
    """A colour and a mark for each family; peers are hollow and dashed."""
    families = list(dict.fromkeys((f.family, f.peer) for f in figures))
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


def _panel(axis: Any, shown: Sequence[Figure], bound: Curve, styles: dict[str, dict[str, Any]]) -> None:
    errors = np.geomspace(LEAST, ERRORS[0], 60)
    axis.plot(errors, [bound.at(error) for error in errors], color="black", lw=2, label="bound")
    lossless = [f"{f.coder}  {f.bits:.1f}" for f in shown if f.error == 0]
    axis.text(0.02, 0.98, "\n".join(["lossless:", *lossless]), va="top", fontsize=8, transform=axis.transAxes)
    ordered = sorted((f for f in shown if f.error > 0), key=lambda f: f.family)
    for family, found in groupby(ordered, key=lambda f: f.family):
        points = sorted((f.error, f.bits) for f in found)
        axis.plot(*zip(*points, strict=True), label=family, ms=6, lw=0.8, **styles[family])
    axis.set_xscale("log")
    axis.set_xlim(LARGEST, 0.9 * LEAST)
    axis.set_ylim(0, MOST)
    axis.set_xlabel("relative L2 error  (smaller →)")
    axis.set_ylabel("bits a value, everything included  (← smaller)")
    axis.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
    axis.grid(which="major", color="0.9")
    axis.set_axisbelow(True)
