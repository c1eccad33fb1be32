"""The FFT paper's pictures: representable numbers, status vector, cost model and α."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.palette import BLUE, COLOURS, DARK
from benchmarks.common.pictures import open_picture
from benchmarks.papers import fft
from benchmarks.papers.min_ratio import published_min_ratio

__all__ = ["draw"]

HIGHEST = 100
"""Largest ratio that is shown."""
STEEP, RIGHT = (10, 20, 40), 48
"""Ratios at which names are beside the lines, and the bandwidth of those that are right of all lines."""
BANDWIDTHS = np.geomspace(1, 100, 600)
"""Gbit/s; as in the measurement, but closer together, because lines are steep at their ends."""
PACKING = 34e9


def draw(folder: Path, found: fft.Result) -> list[Path]:
    """Draw the four pictures into a folder; return their paths."""
    paths = [folder / f"papers_fft_{name}.png" for name in ("numbers", "status", "ratio", "alpha")]
    _draw_numbers(paths[0], found)
    _draw_status(paths[1], found)
    _draw_ratio(paths[2])
    _draw_alpha(paths[3], found)
    return paths


def _draw_numbers(path: Path, found: fft.Result) -> None:
    title = "Which numbers can a format of 8 bits represent, and how many?"
    with open_picture(path, 1, len(found.numbers), title=title, height=2.8) as axes:
        for axis, (name, numbers) in zip(axes[0], found.numbers.items(), strict=True):
            axis.hist(numbers, bins=51, color=BLUE)
            axis.set_title(f"{name}: {numbers.size}", loc="left")
            axis.set_xlabel("value")
        axes[0, 0].set_ylabel("numbers per bin, of 51 bins")


def _draw_status(path: Path, found: fft.Result) -> None:
    title = "How much of a message is the bitmap of the status vector?"
    with open_picture(path, 1, title=title, height=3.0) as axes:
        axis = axes[0, 0]
        axis.plot(
            [1 / (1 - theta) for theta, *_ in found.status], [100 * s for _, s, *_ in found.status], "o-"
        )
        axis.set(xscale="log", ylim=(0, 105), ylabel="bitmap's part of the bytes, %")
        axis.set_xlabel("coefficients per coefficient sent, 1 / (1 - θ)")
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.grid(color="0.92")


def _draw_ratio(path: Path) -> None:
    title = "From which ratio on is compression faster than sending the gradient?"
    with open_picture(path, 1, title=title, height=3.6) as axes:
        axis = axes[0, 0]
        for throughput, colour in zip(fft.THROUGHPUTS, COLOURS, strict=False):
            rates = fft.FIXED | {"packing": PACKING, "selection": throughput * 1e9}
            least = [published_min_ratio(bandwidth / 8 * 1e9, **rates) for bandwidth in BANDWIDTHS]
            points = [p for p in zip(BANDWIDTHS, least, strict=True) if p[1] <= HIGHEST]
            axis.plot(*zip(*points, strict=True), color=colour, lw=1.5)
            _name_line(axis, points, f"{throughput} GB/s", colour)
        axis.set(
            xscale="log",
            yscale="log",
            xlim=(1, 80),
            ylim=(1, HIGHEST),
            ylabel="least compression ratio k that pays",
        )
        axis.set_xlabel("bandwidth of the link (T_comm), Gbit/s")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_title("throughputs of the selection (T_s); right of its line, no ratio pays", loc="left")
        axis.grid(color="0.92")


def _name_line(axis: Any, points: Sequence[tuple[float, float]], name: str, colour: str) -> None:
    """Write a name beside the steep part of a line: left of it, or right of all if lines are too close."""
    reached = next(x for x, ratio in points if ratio >= STEEP[0])
    left = reached < RIGHT / 2
    level = STEEP[0] if left else STEEP[len(axis.texts) % len(STEEP)]
    x = next(x for x, ratio in points if ratio >= level)
    line = None if left else {"arrowstyle": "-", "color": colour, "lw": 0.6}
    place = (0.94 * x if left else RIGHT, level)
    axis.annotate(name, (x, level), place, color=colour, ha="right" if left else "left", arrowprops=line)


def _draw_alpha(path: Path, found: fft.Result) -> None:
    title = "Is α, the relative error of the mean gradient, below 1, as Assumption 3.2 requires?"
    with open_picture(path, 1, title=title, height=2.8) as axes:
        axis = axes[0, 0]
        axis.plot(np.arange(1, len(found.alphas) + 1), found.alphas, color=BLUE, lw=1.5)
        axis.axhline(1, color=DARK, lw=1)
        axis.set(xlabel="step", ylim=(0, 1.08), ylabel="α = ‖v - v̂‖ / ‖v‖")
        axis.margins(x=0)
        axis.grid(color="0.92")
