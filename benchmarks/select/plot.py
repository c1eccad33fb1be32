"""Pictures of selectors: speed-ups over top-k, and selected counts, as in the SIDCo paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.palette import BLUE, COLOURS, DARK, GREY
from benchmarks.common.pictures import label_ends, open_picture
from benchmarks.select.count_accuracy import CountAccuracy
from benchmarks.select.report import compute_speed_up, find_baseline
from benchmarks.select.speeds import Speed

__all__ = ["Count", "Gain", "draw", "list_counts", "list_gains"]

DRAWN = ("topk(δ)", "sidco(δ)", "sidco(δ, mode=faithful)", "dgc(δ)", "redsync(δ)", "gaussiank(δ)")
MARKS = "os^vDP"
TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
FEW = 6
"""Of wider ranges, every second tick is shown."""
MIN_RATIO, MAX_RATIO = 0.03, 20.0
"""Range of k̂/k; ratios beyond it are drawn at its end."""


@dataclass(frozen=True)
class Gain:
    """Point of select.png: the speed-up of one selector, on one thread and a synthetic array.

    Attributes:
        name, elements, density: as of a Speed.
        baseline: the selector that the speed-up refers to.
        speed_up: over the baseline.
    """

    name: str
    elements: int
    density: float
    baseline: str
    speed_up: float


@dataclass(frozen=True)
class Count:
    """Line of select_counts.png: k̂/k of one selector with feedback.

    Attributes:
        stream, density, name: as of a CountAccuracy.
        mean, low, high: of the iterations.
    """

    stream: str
    density: float
    name: str
    mean: float
    low: float
    high: float


def list_gains(speeds: Sequence[Speed]) -> list[Gain]:
    """List the points of select.png."""
    synthetic = [s for s in speeds if s.synthetic and s.threads == 1]
    baseline = find_baseline(synthetic)
    return [
        Gain(s.name, s.elements, s.density, baseline, compute_speed_up(synthetic, s, baseline))
        for s in synthetic
        if s.name in DRAWN
    ]


def list_counts(accuracies: Sequence[CountAccuracy]) -> list[Count]:
    """List the lines of select_counts.png.

    They are those of the first stream of real gradients with feedback, or else of the first one with
    feedback.
    """
    some = [a for a in accuracies if a.feedback]
    some = sorted(some, key=lambda a: not (a.real and len(a.ratios) > 1))
    return [
        Count(a.stream, a.density, a.name, sum(a.ratios) / len(a.ratios), min(a.ratios), max(a.ratios))
        for a in some
        if a.stream == some[0].stream
    ]


def draw(folder: Path, gains: Sequence[Gain], counts: Sequence[Count]) -> None:
    """Draw select.png, after figures 1a, 1b and 16 of the paper, and select_counts.png, after 1c and 9.

    Args:
        folder: of the PNGs.
        gains: points of the first picture.
        counts: lines of the second one; without any, it is not drawn.
    """
    baseline = gains[0].baseline
    title = f"How many times as fast as {baseline} is each selector, on one thread?"
    with open_picture(folder / "select.png", 2, title=title, height=3.6) as axes:
        _draw_densities(axes[0, 0], gains, baseline)
        _draw_sizes(axes[1, 0], gains, baseline)
    if counts:
        _draw_counts(folder / "select_counts.png", counts)


def _draw_densities(axis: Any, gains: Sequence[Gain], baseline: str) -> None:
    largest, ends = max(g.elements for g in gains), []
    for name, colour, mark in zip(DRAWN, COLOURS, MARKS, strict=True):
        found = [g for g in gains if (g.elements, g.name) == (largest, name)]
        points = [(DENSITIES.index(g.density), g.speed_up) for g in found]
        if points:
            axis.plot(*zip(*points, strict=True), f"{mark}-", color=colour)
            ends.append((*points[-1], name, colour))
    axis.set_xticks(range(len(DENSITIES)), [f"δ = {density:g}" for density in DENSITIES])
    axis.set_xlim(-0.2, len(DENSITIES) - 0.9)
    _finish(axis, f"{largest:,} elements", "density", baseline, ends)


def _draw_sizes(axis: Any, gains: Sequence[Gain], baseline: str) -> None:
    ends = []
    for name, colour, mark in zip(DRAWN, COLOURS, MARKS, strict=True):
        found = [g for g in gains if (g.density, g.name) == (0.01, name)]
        points = [(g.elements, g.speed_up) for g in found]
        if points:
            axis.plot(*zip(*points, strict=True), f"{mark}-", color=colour)
            ends.append((*points[-1], name, colour))
    axis.set_xscale("log")
    _finish(axis, "density 0.01", "elements", baseline, ends)


def _finish(axis: Any, title: str, x: str, baseline: str, ends: Sequence[Any]) -> None:
    axis.set_title(title, loc="left")
    axis.set(xlabel=x, ylabel=f"times as fast as {baseline}", yscale="log")
    axis.margins(y=0.1)
    low, high = axis.get_ylim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_yticks(ticks[:: 1 + (len(ticks) > FEW)])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.grid(axis="y", color="0.92")
    axis.set_axisbelow(True)
    label_ends(axis, ends)


def _draw_counts(path: Path, counts: Sequence[Count]) -> None:
    names = list(dict.fromkeys(count.name for count in counts))
    title = f"How close to k is the number of selected elements? {counts[0].stream}, with feedback"
    with open_picture(path, 1, len(DENSITIES), title=title, height=3.2, sharey=True) as axes:
        for axis, density in zip(axes[0], DENSITIES, strict=True):
            for count in counts:
                if count.density == density:
                    place = names.index(count.name)
                    mean, *ends = (
                        min(max(one, MIN_RATIO), MAX_RATIO) for one in (count.mean, count.low, count.high)
                    )
                    axis.plot(ends, [place, place], color=GREY, lw=2)
                    axis.plot([mean], [place], "o", color=BLUE)
            axis.axvline(1, color=DARK, lw=0.8)
            axis.set(xscale="log", xlim=(MIN_RATIO, MAX_RATIO), xlabel="selected / k")
            axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
            axis.set_title(f"δ = {density:g}", loc="left")
        axes[0, 0].set_yticks(range(len(names)), names)
        axes[0, 0].invert_yaxis()
