"""Pictures of SIDCo's fits and of AdaComp, from the points of their curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.palette import BLUE, COLOURS, GREEN, GREY, ORANGE, OTHERS, OURS, PALE
from benchmarks.common.pictures import label_ends, label_lines, open_picture
from benchmarks.papers.pages.curves import DENSE, MEASURED, Point

__all__ = ["draw_curves"]

METHODS = {"AdaComp": OURS, "Local Selection": OTHERS, "Dryden": ORANGE}
LEAST = 1e-3
"""Smallest number of the panels of sorted magnitudes."""

Lines = dict[str, list[tuple[float, float]]]


def draw_curves(folder: Path, curves: Mapping[str, Sequence[Point]]) -> list[Path]:
    """Draw each picture that has points into a folder; return their paths.

    Args:
        folder: of the PNGs.
        curves: {picture: its points}.
    """
    paths = []
    for name, draw in PICTURES.items():
        if panels := _arrange(curves[name]):
            paths.append(folder / f"papers_{name}.png")
            draw(paths[-1], panels)
    return paths


def _arrange(points: Sequence[Point]) -> dict[str, Lines]:
    """Return {panel: {line: its points}}."""
    panels: dict[str, Lines] = {}
    for point in points:
        panels.setdefault(point.panel, {}).setdefault(point.line, []).append((point.x, point.y))
    return panels


def _draw_fits(path: Path, panels: Mapping[str, Lines]) -> None:
    title = "Which distribution fits the magnitudes of a gradient? Grey: measured"
    with open_picture(path, 2, 2, title=title, height=3.0) as axes:
        for axis, (name, lines) in zip(axes.flat, panels.items(), strict=True):
            measured = np.array(lines[MEASURED])
            axis.fill_between(*measured.T, step="mid", color=PALE, lw=0)
            labels = []
            fitted = [one for one in lines.items() if one[0] != MEASURED]
            for colour, (fit, points) in zip((BLUE, GREEN, ORANGE), fitted, strict=True):
                axis.plot(*zip(*points, strict=True), color=colour, lw=1.5)
                labels.append((points, fit, colour))
            seen = measured[measured[:, 1] > 0, 1]
            axis.set(yscale="log", ylim=(seen.min() / 3, seen.max() * 3))
            axis.set(xlabel="magnitude", ylabel="probability density")
            axis.set_xlim(0, measured[-1, 0])
            axis.set_title(name, loc="left")
            if axis is axes[0, 0]:
                label_lines(axis, labels, [(float(x), float(y)) for x, y in measured])


def _draw_decay(path: Path, panels: Mapping[str, Lines]) -> None:
    title = "Do a gradient's sorted magnitudes fall as a power of their rank, with p above 0.5?"
    named = {"magnitudes": ("rank", "magnitude / largest"), "errors": ("elements sent", "relative error")}
    with open_picture(path, 2, 1, title=title, height=3.4) as axes:
        for axis, (name, (across, up)) in zip(axes.flat, named.items(), strict=True):
            ends = []
            for colour, (line, points) in zip(COLOURS, panels[name].items(), strict=False):
                shown = [(x, y) for x, y in points if y >= LEAST]
                axis.plot(*zip(*shown, strict=True), color=colour, lw=1.5)
                ends.append((*shown[-1], line, colour))
            axis.set(xscale="log", yscale="log", xlabel=across, ylabel=up, ylim=(LEAST, 2))
            axis.margins(x=0)
            label_ends(axis, ends, x=1.04)


def _draw_errors(path: Path, panels: Mapping[str, Lines]) -> None:
    (lines,) = panels.values()
    title = "How does the test error grow with the compression rate?"
    with open_picture(path, 1, title=title, height=3.6) as axes:
        axis, labels = axes[0, 0], []
        for method, colour in METHODS.items():
            points = [(rate, 100 * error) for rate, error in sorted(lines[method])]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, lw=1.5)
            labels.append((points, method, colour))
        axis.set(xscale="log", xlabel="compression rate, as in the paper", ylabel="test error, %")
        axis.margins(x=0.1, y=0.15)
        ((_, dense),) = lines[DENSE]
        axis.axhline(100 * dense, color=GREY, lw=1, ls=":")
        left, right = axis.get_xlim()
        axis.set(xlim=(left, right), ylim=axis.get_ylim())
        places = [(float(x), 100 * dense) for x in np.geomspace(left, right, 9)]
        label_lines(axis, [*labels, (places, "dense training", GREY)])


def _draw_residuals(path: Path, panels: Mapping[str, Lines]) -> None:
    title = "How large do the residuals become, if all layers are compressed?"
    layout: dict[str, Any] = {"sharex": True, "sharey": True}
    with open_picture(path, 2, 2, title=title, height=2.8, **layout) as axes:
        for axis, (name, lines) in zip(axes.flat, panels.items(), strict=True):
            for method, points in lines.items():
                axis.plot(*zip(*points, strict=True), color=METHODS[method], lw=1.5)
            axis.set(yscale="log")
            axis.set_title(name, loc="left")
        for axis in axes[-1]:
            axis.set_xlabel("step")
        for axis in axes[:, 0]:
            axis.set_ylabel("95th percentile of |residual|")
        for axis, lines in list(zip(axes.flat, panels.values(), strict=True))[1::2]:
            axis.margins(x=0)
            label_ends(axis, [(*points[-1], method, METHODS[method]) for method, points in lines.items()])


def _draw_histogram(path: Path, panels: Mapping[str, Lines]) -> None:
    (lines,) = panels.values()
    title = "How large are the residuals in the end, with all layers in bins of 5,000?"
    with open_picture(path, 1, title=title, height=3.4) as axes:
        axis, labels = axes[0, 0], []
        for method, points in lines.items():
            shown = [(size, count) for size, count in points if count > 0]
            axis.step(*zip(*shown, strict=True), where="mid", color=METHODS[method], lw=1.5)
            labels.append((shown, method, METHODS[method]))
        axis.set(xscale="log", yscale="log", xlabel="|residual|", ylabel="elements per bin of the histogram")
        axis.margins(x=0.12, y=0.1)
        label_lines(axis, labels)


PICTURES = {
    "sidco_fits": _draw_fits,
    "sidco_decay": _draw_decay,
    "adacomp": _draw_errors,
    "adacomp_residuals": _draw_residuals,
    "adacomp_histogram": _draw_histogram,
}
"""{picture: draws it}."""
