"""Picture of selectors: speed-ups over top-k, as in the SIDCo paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.palette import COLOURS
from benchmarks.common.pictures import label_ends, open_picture
from benchmarks.select.report import Gain

__all__ = ["draw"]

DRAWN = ("topk(δ)", "sidco(δ)", "sidco(δ, mode=faithful)", "dgc(δ)", "redsync(δ)", "gaussiank(δ)")
MARKS = "os^vDP"
TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
FEW = 6
"""Of wider ranges, every second tick is shown."""


def draw(path: Path, gains: Sequence[Gain]) -> None:
    """Draw the speed-ups, after figures 1a, 1b and 16 of the paper.

    Args:
        path: of the PNG.
        gains: of all selectors and arrays, of which synthetic arrays are drawn.
    """
    synthetic = [gain for gain in gains if gain.array[0].isdigit()]
    baseline = next(name for name in ("torch.topk", "np.argpartition") if name in {g.selector for g in gains})
    sizes = sorted({int(gain.array.replace(",", "")) for gain in synthetic})
    largest = f"{sizes[-1]:,}"
    title = f"How many times as fast as {baseline} is each selector, on one thread?"
    with open_picture(path, 2, title=title, height=3.6) as axes:
        over, under = axes[0, 0], axes[1, 0]
        ends = _draw_lines(
            over,
            [gain for gain in synthetic if gain.array == largest],
            lambda gain: DENSITIES.index(gain.density),
        )
        over.set_xticks(range(len(DENSITIES)), [f"δ = {density:g}" for density in DENSITIES])
        over.set_xlim(-0.2, len(DENSITIES) - 0.9)
        _finish(over, f"{largest} elements", "density", baseline, ends)
        ends = _draw_lines(
            under,
            [gain for gain in synthetic if gain.density == 0.01],
            lambda gain: int(gain.array.replace(",", "")),
        )
        under.set_xscale("log")
        _finish(under, "density 0.01", "elements", baseline, ends)


def _draw_lines(axis: Any, gains: Sequence[Gain], place: Callable[[Gain], int]) -> list[Any]:
    """Draw a line per selector; return its last point, name and colour."""
    ends = []
    for name, colour, mark in zip(DRAWN, COLOURS, MARKS, strict=True):
        points = [(place(gain), gain.over_baseline) for gain in gains if gain.selector == name]
        if points:
            axis.plot(*zip(*points, strict=True), f"{mark}-", color=colour)
            ends.append((*points[-1], name, colour))
    return ends


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
